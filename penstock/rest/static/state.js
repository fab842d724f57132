// The state of the job: what there is, how large it is and how it is spread, and the value of a key.
import { BarChart } from './charts.js';
import { keyJson, namespaceJson, parse, show } from './exact.js';
import { get, getOrNull, send } from './server.js';
import { bytes, count, percent, plural, span } from './texts.js';
import { banner, card, Component, empty, html, table } from './view.js';

const PLAIN = /^[A-Za-z0-9_.:~-]+$/;
const BARS = 64;

export const loadState = async (base, _, known) => {
  const found = await getOrNull(`${base}/state`);
  return { states: found?.states ?? [], at: known.checkpoints?.latest.completed?.id ?? null };
};

const about = (exact) => (exact ? '' : 'about ');
const idOf = (state) => `${state.operator} / ${state.state}`;

export class StatePage extends Component {
  constructor() {
    super();
    this.state = { chosen: null, key: '', namespace: '', source: 'committed', answer: null, failure: null };
    this.first = {};
  }

  async look(event, states) {
    event.preventDefault();
    const { base } = this.props, { key, namespace, source } = this.state, chosen = this.chosen(states);
    const [kind, place] = source.split(/:(.*)/s);
    const from = kind === 'checkpoint' ? { checkpoint: Number(place) } : kind === 'savepoint' ? { savepoint: place } : { consistency: kind };
    const hasNamespace = Boolean(namespace && chosen['namespace-type']);
    this.setState({ failure: null, looks: true });
    try {
      const isPlain = PLAIN.test(chosen.operator) && PLAIN.test(chosen.state);
      const answer = isPlain ? await get(`${base}/state/${chosen.operator}/${chosen.state}?${new URLSearchParams({ key, ...(hasNamespace ? { namespace } : {}), ...from })}`, exactly)
        : await send('POST', `${base}/state`, bodyOf({ operator: chosen.operator, state: chosen.state, ...from }, `[${keyJson(key, chosen['key-types'])}]`, hasNamespace ? namespaceJson(namespace) : null), exactly);
      this.setState({ answer: { ...answer, key, of: idOf(chosen) }, looks: false });
    } catch (error) {
      this.setState({ answer: null, failure: error.message, looks: false });
    }
  }

  chosen(states) { return states.find((state) => idOf(state) === this.state.chosen) ?? states[0]; }

  grown(state) {
    // Since the page was opened: bytes, or null if there was no checkpoint since.
    const size = state['size-bytes'], { at } = this.props.data;
    if (size === null) return null;
    const first = (this.first[idOf(state)] ??= { size, at });
    return first.at === at ? null : size - first.size;
  }

  render({ data, checkpoints }, { key, namespace, source, answer, failure, looks }) {
    if (!data) return '';
    const { states } = data;
    if (states.length === 0) return card('', empty('No keyed state', 'The functions of the job have declared none, or they have not been opened yet.'));
    const chosen = this.chosen(states);
    return html`
      ${card('States', this.list(states), { note: data.at === null ? 'sizes are known after the first checkpoint' : `sizes in checkpoint ${data.at}` })}
      ${card('Look up a key', html`<form onSubmit=${(event) => this.look(event, states)}>
        <div class="toolbar"><label class="field grow"><span>State</span><select value=${idOf(chosen)} onChange=${(event) => this.setState({ chosen: event.target.value, answer: null })}>${states.map((state) => html`<option value=${idOf(state)}>${idOf(state)}</option>`)}</select></label>
          <label class="field grow"><span>Key (${String(chosen['key-type'] ?? '').toLowerCase()})</span><input name="key" autocomplete="off" spellcheck="false" required value=${key} onInput=${(event) => this.setState({ key: event.target.value })} /></label>
          ${chosen['namespace-type'] ? html`<label class="field"><span>Namespace, such as [0, 5000]</span><input name="namespace" autocomplete="off" value=${namespace} onInput=${(event) => this.setState({ namespace: event.target.value })} /></label>` : ''}
          <label class="field"><span>As of</span><select name="source" value=${source} onChange=${(event) => this.setState({ source: event.target.value })}>${sources(checkpoints).map(([value, name]) => html`<option value=${value}>${name}</option>`)}</select></label>
          <button class="main" disabled=${looks}>Look up</button></div></form>
        <div class="answer" role="status">${failure ? banner('bad', 'No answer', failure) : answer ? value(answer) : html`<p class="note">Nothing is changed by a look-up.</p>`}</div>`)}
      ${chosen['group-bytes']?.length || chosen.largest?.length ? spread(chosen) : ''}`;
  }

  list(states) {
    return table('Keyed states', ['Operator', 'State', 'Kind', 'Type', ['Entries', 'number'], ['Size', 'number'], ['Growth', 'number'], ['Skew', 'number'], ['Time to live', 'number'], 'Queries'], states.map((state) => {
      const grown = this.grown(state), skew = skewOf(state);
      return html`<tr class=${idOf(state) === this.state.chosen ? 'chosen' : ''}><th scope="row">${state.operator}</th><td><button type="button" class="link" onClick=${() => this.setState({ chosen: idOf(state), answer: null })}>${state.state}</button></td><td>${state.kind}</td>
        <td class="wide"><code>${typeOf(state)}</code></td><td class="number">${about(state['entries-exact'] || state.entries === null)}${count(state.entries)}</td><td class="number">${about(state['size-exact'] || state['size-bytes'] === null)}${bytes(state['size-bytes'])}</td>
        <td class="number">${grown === null ? '–' : `${grown < 0 ? '−' : '+'}${bytes(Math.abs(grown))}`}</td><td class="number">${skew === null ? '–' : html`<span class=${skew > 4 ? 'warn' : ''}>${skew.toFixed(1)}×</span>`}</td>
        <td class="number">${state['ttl-ms'] === null ? 'none' : span(state['ttl-ms'])}</td><td>${state.queryable ?? '–'}</td></tr>`;
    }));
  }
}

const typeOf = (state) => {
  const inner = state['map-key-type'] ? `${state['map-key-type']} → ${state['value-type']}` : state['value-type'];
  return `${state['key-type']} → ${inner}`;
};

const sources = (checkpoints) => [
  ['committed', 'now: the last epoch'], ['checkpointed', 'the last checkpoint'],
  ...(checkpoints?.history ?? []).filter((found) => found.status === 'COMPLETED' && found.external_path && !found.discarded).map((found) => (found.is_savepoint ? [`savepoint:${found.external_path}`, `savepoint ${found.id}`] : [`checkpoint:${found.id}`, `checkpoint ${found.id}`])),
];

// An answer whose values are as they were written.
const exactly = (text) => ({ ...JSON.parse(text), values: parse(text).svalues });

const bodyOf = (fields, keys, namespace) => `${JSON.stringify(fields).slice(0, -1)},"keys":${keys}${namespace === null ? '' : `,"namespace":${namespace}`}}`;

function value(answer) {
  const [found] = answer.values ?? [null], where = answer.checkpoint ? `in checkpoint ${answer.checkpoint}` : `at the end of epoch ${answer.epoch}`;
  return html`<p class="note">${answer.of}, key <code>${answer.key}</code>, ${where}</p>${found === null ? html`<p><strong>Nothing is stored for this key.</strong></p>` : html`<pre class="command">${show(found)}</pre>`}`;
}

function skewOf(state) {
  // The largest key group in relation to the mean.
  const sizes = state['group-bytes'] ?? [], total = sizes.reduce((sum, size) => sum + size, 0);
  return total === 0 ? null : Math.max(...sizes) / (total / sizes.length);
}

function spread(state) {
  const sizes = state['group-bytes'] ?? [], wide = Math.max(1, Math.ceil(sizes.length / BARS)), bars = [];
  for (let at = 0; at < sizes.length; at += wide) {
    const last = Math.min(at + wide, sizes.length) - 1;
    bars.push({ name: last === at ? String(at) : `${at}–${last}`, title: last === at ? `Key group ${at}` : `Key groups ${at} to ${last}`, parts: [sizes.slice(at, last + 1).reduce((sum, size) => sum + size, 0)] });
  }
  const total = sizes.reduce((sum, size) => sum + size, 0);
  return html`<div class="columns">
    ${bars.length ? card('Key groups', html`<${BarChart} label="Bytes by key group" bars=${bars} names=${['Bytes']} text=${bytes} base=${1024} classes=${['c4']} slots=${bars.length} />`, { note: `${state.state}: the largest has ${skewOf(state)?.toFixed(1) ?? '–'} times the mean` }) : ''}
    ${state.largest?.length ? card('Largest keys', table('Largest keys', ['Key', ['Size', 'number'], ['Share', 'number']], state.largest.map(([name, size]) => html`<tr><th scope="row"><code>${name}</code></th><td class="number">${bytes(size)}</td><td class="number">${total ? percent(size / total) : '–'}</td></tr>`)), { note: plural(state.largest.length, 'key') }) : ''}
  </div>`;
}
