// Pages that list what the server knows: exceptions, configuration, guarantees, logs.
import { get } from './server.js';
import { time } from './texts.js';
import { banner, card, Component, empty, html, table } from './view.js';

export function exceptionsPage({ data, figures }) {
  if (!data) return '';
  const { entries, truncated } = data;
  if (entries.length === 0) return card('', empty('No attempt has failed', figures.attempt > 1 ? `The job is in attempt ${figures.attempt}.` : 'The job is in its first attempt.'));
  return html`${entries.map((entry) => html`<article class="card failure" key=${entry.timestamp}>
    <header><h2>${entry.exceptionName}</h2><span class="note">attempt ${entry.failureLabels.attempt} · <time>${time(entry.timestamp)}</time></span></header>
    <pre tabindex="0" aria-label="Message">${entry.stacktrace}</pre></article>`)}
    ${truncated ? html`<p class="note">Older ones are in the logs.</p>` : ''}`;
}

const TONES = { 'exactly once': 'good', 'effectively once': 'good', 'at least once': 'warn', 'at most once': 'bad', 'no guarantee': 'bad' };
const MEANS = {
  'exactly once': 'Whatever fails, each record is in the result once.',
  'effectively once': 'Records may be written again after a failure, and the final result is the same.',
  'at least once': 'After a failure, some records may be in the result twice.',
  'at most once': 'After a failure, some records may be missing.',
  'no guarantee': 'After a failure, records may be missing and others may be twice.',
};

export function guaranteesPage({ data }) {
  if (!data) return '';
  const tone = (word) => TONES[word] ?? 'quiet';
  return html`
    <section class="promise ${tone(data.guarantee)}"><p>From end to end, this job is</p><h2>${data.guarantee}</h2><p>${MEANS[data.guarantee] ?? ''} State changes ${data.state}.</p></section>
    ${data.weak_parts?.length ? card('What weakens it', html`<ul class="advice">${data.weak_parts.map((part) => html`<li><b>${part.part}${part.name ? ` ${part.name}` : ''}</b><span>${part.reason}</span>${part.remedy ? html`<em>${part.remedy}</em>` : ''}</li>`)}</ul>`) : ''}
    ${card('Output by output', table('Outputs', ['Sink', 'Guarantee'], (data.outputs ?? []).map((output) => html`<tr>
      <th scope="row">${output.name}</th><td><span class="badge ${tone(output.guarantee)}"><i aria-hidden="true"></i>${output.guarantee}</span></td></tr>`), 'The job has no sinks: what it promises is about its state.'))}`;
}

export class ConfigurationPage extends Component {
  render({ data }, { words = '' }) {
    if (!data) return '';
    const fits = ([name, value]) => `${name} ${value}`.toLowerCase().includes(words.toLowerCase());
    const list = (title, pairs, nothing, note) => card(title, html`<div class="pairs">${table(title, ['Name', 'Value'], pairs.filter(fits).map(([name, value]) => html`<tr><th scope="row"><code>${name}</code></th><td class="wide"><code>${String(value)}</code></td></tr>`), pairs.length ? 'Nothing matches.' : nothing)}</div>`, { note });
    return html`
      ${card('', html`<label class="field"><span>Search</span><input type="search" value=${words} onInput=${(event) => this.setState({ words: event.target.value })} placeholder="name or value" /></label>`)}
      ${list('Settings', data.settings, 'Every setting has its default.', 'those that are set; secret values are hidden')}
      ${list('Execution', data.execution, '')}
      ${list('Job parameters', data.parameters, 'The program has set none.')}`;
  }
}

export async function loadConfiguration(base) {
  const [settings, { 'execution-config': { 'user-config': parameters, ...execution } }] = await Promise.all([get('/jobmanager/config'), get(`${base}/config`)]);
  return { settings: settings.map(({ key, value }) => [key, value]), execution: Object.entries(execution), parameters: Object.entries(parameters) };
}

const LEVELS = ['DEBUG', 'INFO', 'WARN', 'ERROR'];

export class LogsPage extends Component {
  constructor() {
    super();
    this.state = { level: 'INFO', words: '', follows: true, lines: null, failure: null };
  }

  componentDidMount() { this.ask(); }

  componentWillUnmount() { clearTimeout(this.timer); this.isGone = true; }

  async ask() {
    clearTimeout(this.timer);
    try {
      const found = await this.props.read(this.state.level);
      if (this.isGone) return;
      this.setState({ lines: found.lines, failure: null }, () => { if (this.state.follows && this.list) this.list.scrollTop = this.list.scrollHeight; });
    } catch (error) {
      if (!this.isGone) this.setState({ failure: error.message });
    }
    if (this.state.follows && !this.props.isOver) this.timer = setTimeout(() => this.ask(), 2000);
  }

  render(_, { level, words, follows, lines, failure }) {
    const shown = (lines ?? []).filter((line) => line.text.toLowerCase().includes(words.toLowerCase()));
    return card('', html`<div class="toolbar"><label class="field"><span>Level</span><select value=${level} onChange=${(event) => this.setState({ level: event.target.value }, () => this.ask())}>${LEVELS.map((name) => html`<option value=${name}>${name} and above</option>`)}</select></label>
      <label class="field grow"><span>Search</span><input type="search" value=${words} onInput=${(event) => this.setState({ words: event.target.value })} placeholder="text in a line" /></label>
      <label class="check"><input type="checkbox" checked=${follows} onChange=${(event) => this.setState({ follows: event.target.checked }, () => this.ask())} /> Follow</label></div>
      ${failure ? banner('bad', 'The logs cannot be read', failure) : ''}
      <div class="log" tabindex="0" role="log" aria-live="off" aria-label="Log lines" ref=${(list) => { this.list = list; }}>${lines === null ? html`<p class="nothing">Loading …</p>` : shown.length === 0 ? html`<p class="nothing">No line matches.</p>` : shown.map((line) => logLine(line))}</div>
      <p class="note">The last lines of the driver and all TaskManagers. All of them: <code>penstock logs JOB</code>.</p>`);
  }
}

function logLine({ file, time: at, level, text }) {
  const body = at && text.startsWith(at) ? text.slice(at.length).trim().replace(/^(DEBUG|INFO|WARN|ERROR)\s+/, '') : text;
  const [, subject, rest] = /^(\S+) [^|]*\| (.*)$/.exec(body) ?? [null, '', body];
  return html`<div class="log-line ${level.toLowerCase()}"><span class="at">${at.slice(11, 23)}</span><span class="level">${level}</span><span class="from">${file.replace(/\.log$/, '')}${subject ? ` ${subject}` : ''}</span><span class="text">${rest}</span></div>`;
}
