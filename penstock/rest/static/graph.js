// The graph of the job: sources, stages and sinks as boxes; from left to right, on a phone from top to bottom.
import { compact, percent, short } from './texts.js';
import { html } from './view.js';

const WIDTHS = { source: 150, sink: 150, stage: 206 }, GAP = 70, HIGH = { source: 44, sink: 44, stage: 104 }, SPACE = 22;
const HOW = { key: 'by key', forward: '', rebalance: 'rebalance', broadcast: 'broadcast', global: 'to one', custom: 'custom', rescale: 'rescale', shuffle: 'shuffle' };

export function layOut(boxes, edges, isTall) {
  // The place of each box, by its distance from the sources.
  const rank = {};
  const rankOf = (id) => (rank[id] ??= 1 + Math.max(-1, ...edges.filter((edge) => edge.to === id).map((edge) => rankOf(edge.from))));
  boxes.forEach((box) => rankOf(box.id));
  for (const box of boxes) { // a source stands right before its first reader
    const readers = edges.filter((edge) => edge.from === box.id).map((edge) => rank[edge.to]);
    if (box.kind === 'source' && readers.length) rank[box.id] = Math.min(...readers) - 1;
  }
  const columns = [];
  for (const box of boxes) (columns[rank[box.id]] ??= []).push(box);
  const sizeOf = (column) => column.reduce((sum, box) => sum + (isTall ? WIDTHS : HIGH)[box.kind] + SPACE, -SPACE);
  const across = Math.max(...columns.map(sizeOf)), places = {};
  let along = 1;
  for (const column of columns) {
    const deep = Math.max(...column.map((box) => (isTall ? HIGH : WIDTHS)[box.kind]));
    let at = (across - sizeOf(column)) / 2 + 1;
    for (const box of column) {
      places[box.id] = isTall ? { x: at, y: along } : { x: along + deep - WIDTHS[box.kind], y: at };
      at += (isTall ? WIDTHS : HIGH)[box.kind] + SPACE;
    }
    along += deep + (isTall ? GAP - 24 : GAP);
  }
  const length = along - (isTall ? GAP - 24 : GAP) + 1;
  return { places, width: isTall ? across + 2 : length, height: isTall ? length : across + 2 };
}

export function graph({ boxes, edges }, flows, isTall) {
  // flows: for each stage {in, out, busy, pressured, idle, lag}; what is unknown is null.
  const { places, width, height } = layOut(boxes, edges, isTall);
  const kind = Object.fromEntries(boxes.map((box) => [box.id, box.kind])), wide = (id) => WIDTHS[kind[id]];
  const inputs = (id) => edges.filter((edge) => edge.to === id).length;
  return html`<svg class="graph" viewBox="0 0 ${width} ${height}" style=${{ width: '100%', minWidth: `${isTall ? 0 : 0.78 * width}px`, maxWidth: `${width}px` }} role="img" aria-label=${describe(boxes, edges, flows)}>
    ${edges.map((edge) => {
      const from = places[edge.from], to = places[edge.to];
      const [x1, y1, x2, y2] = isTall ? [from.x + wide(edge.from) / 2, from.y + HIGH[kind[edge.from]], to.x + wide(edge.to) / 2, to.y] : [from.x + wide(edge.from), from.y + HIGH[kind[edge.from]] / 2, to.x, to.y + HIGH[kind[edge.to]] / 2];
      const bend = (isTall ? y2 - y1 : x2 - x1) / 2;
      const d = isTall ? `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2 - 5}` : `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2 - 5} ${y2}`;
      const rate = flows[edge.from]?.out ?? (kind[edge.from] === 'source' && inputs(edge.to) === 1 ? flows[edge.to]?.in : null) ?? null;
      const arrow = isTall ? `M${x2 - 4} ${y2 - 7}L${x2} ${y2 - 1}L${x2 + 4} ${y2 - 7}` : `M${x2 - 7} ${y2 - 4}L${x2 - 1} ${y2}L${x2 - 7} ${y2 + 4}`;
      const [lx, ly] = isTall ? [(x1 + x2) / 2 + 8, (y1 + y2) / 2 + 4] : [x1 + 0.46 * (x2 - x1), y1 + (Math.abs(y2 - y1) < 8 ? 0.5 : 0.25) * (y2 - y1)];
      const how = edge.key ?? HOW[edge.partitioning] ?? edge.partitioning;
      const anchor = isTall ? 'start' : 'middle';
      return html`<g class="edge ${rate > 0 ? 'flows' : ''}"><path d=${d} /><path d=${arrow} />
        ${rate === null ? '' : html`<text class="rate" x=${lx} y=${isTall ? ly - (how ? 6 : 0) : ly - 7} text-anchor=${anchor}>${short(rate)}/s</text>`}
        ${how ? html`<text class="how" x=${lx} y=${isTall ? ly + 8 : ly + 15} text-anchor=${anchor}>${cut(how, 12)}</text>` : ''}</g>`;
    })}
    ${boxes.map((box) => (box.kind === 'stage' ? stage(box, places[box.id], flows[box.id] ?? {}) : end(box, places[box.id])))}
  </svg>`;
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function lines(name) {
  // A chained name in at most two lines, broken between operators.
  const parts = name.split(' -> '), found = [''];
  for (const part of parts) {
    const joined = found[found.length - 1] ? `${found[found.length - 1]} → ${part}` : part;
    if (joined.length <= 25 || !found[found.length - 1]) found[found.length - 1] = joined;
    else found.push(`→ ${part}`);
  }
  return found.length > 2 ? [cut(found[0], 25), cut(found.slice(1).join(' '), 25)] : found.map((line) => cut(line, 25));
}

const end = (box, { x, y }) => html`<g class="end ${box.kind}"><title>${box.name}</title><rect x=${x} y=${y} width=${WIDTHS[box.kind]} height=${HIGH[box.kind]} rx="22" />
  <text class="kind" x=${x + 20} y=${y + 18}>${box.kind === 'source' ? 'Source' : 'Sink'}</text><text class="name" x=${x + 20} y=${y + 34}>${cut(box.name, 17)}</text></g>`;

function stage(box, { x, y }, flow) {
  const known = flow.busy !== null && flow.busy !== undefined, inner = WIDTHS.stage - 28;
  const load = known ? [['busy', flow.busy], ['pressured', flow.pressured ?? 0]] : [];
  const heat = !known ? '' : (flow.pressured ?? 0) > 0.3 ? 'is-pressured' : flow.busy > 0.8 ? 'is-busy' : 'is-fine';
  let at = x + 14;
  const names = lines(box.name);
  const note = [`× ${box.parallelism}`, box.keyed ? 'keyed' : '', flow.lag === null || flow.lag === undefined ? '' : `${compact(flow.lag)} behind`].filter(Boolean).join(' · ');
  return html`<g class="stage ${heat}"><title>${box.name}</title><rect class="box" x=${x} y=${y} width=${WIDTHS.stage} height=${HIGH.stage} rx="9" />
    ${names.map((line, index) => html`<text class="name" x=${x + 14} y=${y + 23 + 16 * index}>${line}</text>`)}
    <text class="note" x=${x + 14} y=${y + 60}>${note}</text>
    <rect class="track" x=${x + 14} y=${y + 71} width=${inner} height="5" rx="2.5" />
    ${load.map(([name, share]) => { const from = at; at += inner * Math.min(share, 1); return share > 0.005 ? html`<rect class=${name} x=${from} y=${y + 71} width=${at - from} height="5" rx="2.5" />` : ''; })}
    <text class="load" x=${x + 14} y=${y + 93}>${known ? `busy ${percent(flow.busy)}${flow.pressured > 0.005 ? ` · held up ${percent(flow.pressured)}` : ''}` : 'no load yet'}</text></g>`;
}

function describe(boxes, edges, flows) {
  return `The graph of the job. ${boxes.map((box) => {
    const to = edges.filter((edge) => edge.from === box.id).map((edge) => boxes.find((other) => other.id === edge.to)?.name);
    const flow = flows[box.id];
    return `${box.kind} ${box.name}${flow?.busy !== null && flow?.busy !== undefined ? `, busy ${percent(flow.busy)}` : ''}${to.length ? `, to ${to.join(' and ')}` : ''}`;
  }).join('. ')}`;
}
