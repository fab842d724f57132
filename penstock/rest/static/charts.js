// Charts as SVG, drawn at the width they have. Each says its figures to a screen reader, and as a table on request.
import { clock } from './texts.js';
import { Component, html } from './view.js';

const TOP = 10, BOTTOM = 22, RIGHT = 4;

export function ticksFor(highest, base = 10) {
  // Two to four round values from 0 to at least the highest.
  const wanted = Math.max(highest, 3) / 3;
  const power = base ** Math.floor(Math.log(wanted) / Math.log(base));
  const steps = base === 10 ? [1, 2, 5, 10] : [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
  const step = steps.map((factor) => factor * power).find((found) => found >= wanted * 0.999) ?? wanted;
  return Array.from({ length: Math.ceil(Math.max(highest, 3) / step - 0.001) + 1 }, (_, index) => index * step);
}

class Chart extends Component {
  // What all charts share: the width, the pointer, the frame with its horizontal lines.
  constructor() {
    super();
    this.state = { width: 0, at: null };
  }

  componentDidMount() {
    this.observer = new ResizeObserver(([entry]) => this.setState({ width: Math.floor(entry.contentRect.width) }));
    this.observer.observe(this.plot);
  }

  componentWillUnmount() { this.observer.disconnect(); }

  move(event) {
    const box = event.currentTarget.getBoundingClientRect();
    this.setState({ at: event.clientX - box.left });
  }

  frame({ label, summary, highest, text, base, height = 168, rows, columns }, draw) {
    const { width } = this.state;
    const ticks = ticksFor(highest, base), top = ticks[ticks.length - 1];
    const left = 12 + 6.4 * Math.max(...ticks.map((tick) => text(tick).length));
    const place = { left, right: width - RIGHT, bottom: height - BOTTOM, y: (value) => TOP + (height - TOP - BOTTOM) * (1 - value / top) };
    const drawn = width > 0 ? draw(place) : {};
    return html`<div class="chart">
      <div class="plot" ref=${(plot) => { this.plot = plot; }} style=${{ height: `${height}px` }} onPointerMove=${(event) => this.move(event)} onPointerLeave=${() => this.setState({ at: null })}>
        <svg width=${width || 1} height=${height} role="img" aria-label="${label}: ${summary}">
          ${ticks.map((tick) => html`<line class="grid" x1=${left} x2=${place.right} y1=${place.y(tick)} y2=${place.y(tick)} /><text x=${left - 6} y=${place.y(tick) + 4} text-anchor="end">${text(tick)}</text>`)}
          ${drawn.shapes}
        </svg>
        ${drawn.tip ? html`<div class="tip" style=${{ left: `${Math.min(Math.max(drawn.tip.x, 90), width - 90)}px` }}>${drawn.tip.content}</div>` : ''}
      </div>
      <details class="figures"><summary>Figures</summary><div class="scroll" tabindex="0" role="region" aria-label=${`${label}: figures`}><table><caption class="unseen">${label}</caption>
        <thead><tr>${columns.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
        <tbody>${rows().map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div></details>
    </div>`;
  }
}

function placed(marks, x, right) {
  // Where their labels go: beside the line, and below the label before it if that is near.
  let before = null;
  return marks.map(({ at, label }) => {
    const place = x(at), row = before !== null && place - before.at < 100 ? (before.row + 1) % 4 : 0;
    before = { at: place, row };
    return { label, at: place, row, isLeft: place > right - 90 };
  });
}

export class LineChart extends Chart {
  // points: [ms, value], oldest first; marks: {at, label}, shown as vertical lines.
  render({ label, points, text, marks = [], height }) {
    const values = points.map((point) => point[1]), highest = Math.max(...values, 0);
    const last = points[points.length - 1] ?? [0, 0], first = Math.min(points[0]?.[0] ?? 0, last[0] - 60_000), span = last[0] - first;
    const options = {
      label, text, highest, height, columns: ['Time', label],
      summary: points.length ? `now ${text(last[1])}, highest ${text(highest)}` : 'no figures yet',
      rows: () => points.slice(-20).reverse().map((point) => [clock(point[0]), text(point[1])]),
    };
    return this.frame(options, ({ left, right, bottom, y }) => {
      const x = (ms) => left + ((right - left) * (ms - first)) / span;
      const path = points.map((point, index) => `${index ? 'L' : 'M'}${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`).join('');
      const at = this.state.at === null ? null : points.reduce((best, point) => (Math.abs(x(point[0]) - this.state.at) < Math.abs(x(best[0]) - this.state.at) ? point : best), last);
      return {
        shapes: html`
          ${points.length > 1 ? html`<path class="area" d="${path}L${x(last[0])} ${bottom}L${x(points[0][0])} ${bottom}Z" /><path class="stroke" d=${path} />` : ''}
          ${placed(marks.filter((mark) => mark.at > first), x, right).map(({ label: name, at: place, row, isLeft }) => html`<line class="event" x1=${place} x2=${place} y1=${TOP} y2=${bottom}><title>${name}</title></line><text class="event-label" x=${place + (isLeft ? -4 : 4)} y=${TOP + 8 + 14 * row} text-anchor=${isLeft ? 'end' : 'start'}>${name}</text>`)}
          <text x=${left} y=${bottom + 17}>${clock(first)}</text><text x=${right} y=${bottom + 17} text-anchor="end">${clock(last[0])}</text>
          ${at && points.length ? html`<line class="cross" x1=${x(at[0])} x2=${x(at[0])} y1=${TOP} y2=${bottom} /><circle class="dot" cx=${x(at[0])} cy=${y(at[1])} r="3.5" />` : points.length ? html`<circle class="dot" cx=${x(last[0])} cy=${y(last[1])} r="3" />` : ''}`,
        tip: at && points.length ? { x: x(at[0]), content: html`<b>${text(at[1])}</b><span>${clock(at[0])}</span>` } : null,
      };
    });
  }
}

export class BarChart extends Chart {
  // bars: {name, parts: [numbers], title, tone, mark, href}; each part has the class of its place.
  render({ label, bars, names, text, base, height, slots = 20, classes = names.map((_, index) => `c${index + 1}`) }) {
    const total = (bar) => bar.parts.reduce((sum, part) => sum + part, 0);
    const highest = Math.max(...bars.map(total), 0);
    const sorted = bars.map(total).sort((a, b) => a - b), middle = sorted[Math.floor(sorted.length / 2)];
    const options = {
      label, text, base, highest, height, columns: ['', ...(names.length > 1 ? [...names, 'Total'] : names)],
      summary: bars.length ? `${bars.length} shown, median ${text(middle)}, highest ${text(highest)}` : 'none yet',
      rows: () => [...bars].reverse().slice(0, 20).map((bar) => [bar.name, ...bar.parts.map(text), ...(names.length > 1 ? [text(total(bar))] : [])]),
    };
    return this.frame(options, ({ left, right, bottom, y }) => {
      const step = (right - left) / Math.max(bars.length, slots), wide = Math.max(1, Math.min(step - (step > 6 ? 3 : 1), 28));
      const index = this.state.at === null ? -1 : Math.floor((this.state.at - left) / step), over = bars[index];
      return {
        shapes: html`
          ${over ? html`<rect class="hover" x=${left + index * step} y=${TOP} width=${step} height=${bottom - TOP} />` : ''}
          ${bars.map((bar, place) => {
            let reached = 0;
            const x = left + place * step + (step - wide) / 2;
            return html`<g>${bar.parts.map((part, kind) => {
              const from = y(reached), to = y((reached += part));
              return part > 0 ? html`<rect class="${bar.tone ?? classes[kind]}" x=${x} y=${to} width=${wide} height=${Math.max(from - to, 0.75)} />` : '';
            })}${bar.mark ? html`<circle class="mark" cx=${x + wide / 2} cy=${y(reached) - 5} r="2.5" />` : ''}</g>`;
          })}
          ${bars.length ? html`<text x=${left} y=${bottom + 17}>${bars[0].name}</text>${bars.length > 1 ? html`<text x=${Math.min(right, left + bars.length * step)} y=${bottom + 17} text-anchor="end">${bars[bars.length - 1].name}</text>` : ''}` : html`<text class="none" x=${(left + right) / 2} y=${(TOP + bottom) / 2} text-anchor="middle">none yet</text>`}`,
        tip: over ? {
          x: left + (index + 0.5) * step,
          content: html`<b>${over.title ?? over.name}</b>${names.length > 1 ? over.parts.map((part, kind) => html`<span class="line"><i class=${classes[kind]}></i>${names[kind]}<em>${text(part)}</em></span>`) : html`<span>${text(total(over))}</span>`}${over.note ? html`<span>${over.note}</span>` : ''}`,
        } : null,
      };
    });
  }
}

export const legend = (names, classes = names.map((_, index) => `c${index + 1}`)) => html`<p class="legend">${names.map((name, index) => html`<span><i class=${classes[index]}></i>${name}</span>`)}</p>`;
