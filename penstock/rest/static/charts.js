// Small charts as SVG, each with its figures as text for a screen reader.
import { html } from './view.js';

const WIDTH = 640, HEIGHT = 150, TOP = 16, BOTTOM = 20;

export function lineChart(label, points, text) {
  if (points.length < 2) return html`<p class="quiet">${label}: the first figures come in a moment.</p>`;
  const values = points.map((point) => point[1]);
  const highest = Math.max(...values, 1), first = points[0][0], span = Math.max(points[points.length - 1][0] - first, 1);
  const x = (point) => (WIDTH * (point[0] - first)) / span;
  const y = (point) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * point[1]) / highest;
  const path = points.map((point) => `${x(point).toFixed(1)},${y(point).toFixed(1)}`).join(' ');
  const now = values[values.length - 1];
  return html`<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${label}: now ${text(now)}, highest ${text(highest)}">
    <line class="axis" x1="0" x2=${WIDTH} y1=${HEIGHT - BOTTOM} y2=${HEIGHT - BOTTOM} />
    <polygon class="area" points="0,${HEIGHT - BOTTOM} ${path} ${WIDTH},${HEIGHT - BOTTOM}" />
    <polyline class="stroke" points=${path} />
    <text x="0" y="12">${text(highest)}</text>
    <text x="0" y=${HEIGHT - 5}>${Math.round(span / 1000)} s ago</text>
    <text x=${WIDTH} y=${HEIGHT - 5} text-anchor="end">now</text>
  </svg>`;
}

export function barChart(label, bars, text) {
  // bars: {value, title, marked}
  if (bars.length === 0) return html`<p class="quiet">${label}: none yet.</p>`;
  const highest = Math.max(...bars.map((bar) => bar.value), 1), step = WIDTH / Math.max(bars.length, 20);
  const middle = [...bars].sort((a, b) => a.value - b.value)[Math.floor(bars.length / 2)].value;
  return html`<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${label}: ${bars.length} shown, median ${text(middle)}, longest ${text(highest)}">
    <text x="0" y="12">${text(highest)}</text>
    ${bars.map((bar, index) => {
      const tall = Math.max(1, ((HEIGHT - TOP - 4) * bar.value) / highest);
      return html`<rect class="bar ${bar.marked ? 'mark' : ''}" x=${index * step} y=${HEIGHT - tall} width=${Math.max(1, step - 2)} height=${tall}><title>${bar.title}</title></rect>`;
    })}
  </svg>`;
}

export function graph(vertices) {
  // vertices: {id, name, note, inputs: [ids]}
  const depth = {};
  const depthOf = (vertex) => (depth[vertex.id] ??= vertex.inputs.length === 0 ? 0
    : 1 + Math.max(...vertex.inputs.map((id) => depthOf(vertices.find((other) => other.id === id) ?? { id, inputs: [] }))));
  vertices.forEach(depthOf);
  const rows = {}, place = {}, wide = 230, high = 58;
  for (const vertex of vertices) {
    const column = depth[vertex.id], row = (rows[column] = (rows[column] ?? 0) + 1) - 1;
    place[vertex.id] = [column * (wide + 50) + 1, row * (high + 18) + 1];
  }
  const width = (Math.max(0, ...Object.values(depth)) + 1) * (wide + 50) - 48;
  const height = Math.max(1, ...Object.values(rows)) * (high + 18) - 14;
  const short = (text) => (text.length > 32 ? `${text.slice(0, 31)}…` : text);
  return html`<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="The graph of the job: ${vertices.map((vertex) => vertex.name).join(', then ')}" width=${width} class="graph">
    ${vertices.flatMap((vertex) => vertex.inputs.filter((id) => place[id]).map((id) => {
      const [x1, y1] = place[id], [x2, y2] = place[vertex.id], half = high / 2;
      return html`<path class="edge" d="M${x1 + wide} ${y1 + half} C${x1 + wide + 25} ${y1 + half} ${x2 - 25} ${y2 + half} ${x2} ${y2 + half}" />`;
    }))}
    ${vertices.map((vertex) => {
      const [x, y] = place[vertex.id];
      return html`<g><title>${vertex.name}</title><rect class="box" x=${x} y=${y} width=${wide} height=${high} rx="8" />
        <text class="name" x=${x + 12} y=${y + 24}>${short(vertex.name)}</text><text x=${x + 12} y=${y + 44}>${vertex.note}</text></g>`;
    })}
  </svg>`;
}
