// Savepoints: take one, stop with one, and see what can be done with those that were taken.
import { send } from './server.js';
import { bytes, duration, time, when } from './texts.js';
import { badge, banner, card, Component, Dialog, empty, file, html, path, table } from './view.js';

const FORMATS = [['CANONICAL', 'Canonical', 'any backend, any parallelism'], ['NATIVE', 'Native', 'fast, this backend']];

export class SavepointsPage extends Component {
  constructor() {
    super();
    this.state = { target: '', format: 'CANONICAL', drain: false, asks: false, check: null };
  }

  start(kind) {
    const { target, format: formatType, drain } = this.state, { base, operate } = this.props, folder = target.trim() || null;
    const [name, request, result] = {
      savepoint: ['Taking a savepoint', ['/savepoints', { 'target-directory': folder, formatType }, '/savepoints'], (found) => ['The savepoint is complete', path(found.location)]],
      stop: ['Stopping with a savepoint', ['/stop', { targetDirectory: folder, formatType, drain }, '/savepoints'], (found) => ['The job has stopped with a savepoint', path(found.location)]],
      checkpoint: ['Taking a checkpoint', ['/checkpoints', {}, '/checkpoints'], (found) => [`Checkpoint ${found.checkpointId} is complete`, html`<a href="#/checkpoints/${found.checkpointId}">See where its time went</a>`]],
    }[kind];
    this.setState({ asks: false });
    operate(name, () => send('POST', base + request[0], request[1]), base + request[2], result);
  }

  async check(found) {
    this.setState({ check: { found } });
    try {
      const report = await send('POST', `${this.props.base}/checkpoints/details/${found.id}/restore-check`);
      this.setState({ check: { found, report } });
    } catch (error) {
      this.setState({ check: { found, failure: error.message } });
    }
  }

  render({ checkpoints, figures, operation, base }, { target, format, drain, asks, check }) {
    const taken = (checkpoints?.history ?? []).filter((found) => found.is_savepoint);
    const isOff = Boolean(operation?.runs) || figures.state !== 'RUNNING';
    return html`
      ${card('Take a savepoint', html`<form onSubmit=${(event) => { event.preventDefault(); this.start('savepoint'); }}>
        <fieldset><legend>Format</legend><div class="choices">${FORMATS.map(([value, name, text]) => html`<label class="choice"><input type="radio" name="format" value=${value} checked=${format === value} onChange=${() => this.setState({ format: value })} /><b>${name}</b><span>${text}</span></label>`)}</div></fieldset>
        <label class="field"><span>Folder</span><input name="target" autocomplete="off" spellcheck="false" placeholder="the job's default folder" value=${target} onInput=${(event) => this.setState({ target: event.target.value })} /></label>
        <div class="actions"><button class="main" disabled=${isOff}>Take a savepoint</button>
          <button type="button" disabled=${isOff} onClick=${() => this.setState({ asks: true })}>Stop with a savepoint …</button>
          <button type="button" disabled=${isOff || !checkpoints} onClick=${() => this.start('checkpoint')}>Checkpoint now</button></div>
      </form>`)}
      ${asks ? html`<${Dialog} title="Stop with a savepoint" close=${() => this.setState({ asks: false })}>
        <p>The job processes what it has read, writes the savepoint and ends. A new start from the savepoint goes on where it stopped.</p>
        <label class="check"><input type="checkbox" checked=${drain} onChange=${(event) => this.setState({ drain: event.target.checked })} /> Let event time end: all windows and timers fire. Only for a job that will not go on.</label>
        <div class="actions"><button class="main danger" type="button" onClick=${() => this.start('stop')}>Stop the job</button><button type="button" onClick=${() => this.setState({ asks: false })}>Keep it running</button></div></${Dialog}>` : ''}
      ${card('Savepoints', taken.length === 0 ? empty('No savepoint yet', 'A savepoint is complete in itself: keep one before each change of the program, or take one along to another machine.')
        : table('The last savepoints, newest first', ['ID', 'Status', 'Format', 'Trigger Time', ['Duration', 'number'], ['Size', 'number'], 'Path', 'Actions'], taken.map((found) => html`<tr key=${found.id}>
          <th scope="row"><a href="#/checkpoints/${found.id}">${found.id}</a></th><td>${badge(found.status)}</td><td>${found.savepointFormat}</td><td title=${time(found.trigger_timestamp)}>${when(found.trigger_timestamp)}</td><td class="number">${duration(found.end_to_end_duration)}</td>
          <td class="number">${bytes(found.state_size)}</td><td>${found.external_path ? file(found.external_path) : found.failure_message ?? '–'}</td>
          <td>${found.external_path ? html`<span class="row-actions"><a href="${base}/checkpoints/details/${found.id}/manifest" download="savepoint-${found.id}.json">Manifest</a><button type="button" class="link" onClick=${() => this.check(found)} aria-label="Check a restore of savepoint ${found.id}">Check restore</button></span>` : ''}</td></tr>`)))}
      ${check ? card(`Would this program start from savepoint ${check.found.id}?`, restoreReport(check)) : ''}
      ${card('Start from a savepoint', html`<p>Start a program from one, and see first what it would take from it:</p><pre class="command">penstock restore --check job.py PATH\npenstock run -s PATH job.py</pre>`)}`;
  }
}

function restoreReport({ report, failure }) {
  if (failure) return banner('bad', 'The check has failed', failure);
  if (!report) return html`<p class="note" role="status">Comparing …</p>`;
  return html`${report.possible ? banner('good', 'It would start', report.changes?.length ? html`<ul>${report.changes.map((text) => html`<li>${text}</li>`)}</ul>` : 'Every state has its operator.')
    : banner('bad', 'It would not start', html`<ul>${report.needed.map((text) => html`<li>${text}</li>`)}</ul>`)}
    ${table('Operators of the program and the savepoint', ['Operator', 'Outcome', 'States', 'Parallelism'], (report.operators ?? []).map((operator) => html`<tr>
      <th scope="row">${operator.uid}</th><td>${badge(operator.outcome)}</td><td class="wide">${operator.states.length === 0 ? '–' : operator.states.map((state) => html`<div>${state.name} <span class="note">${state.kind}: ${state.outcome}${state.changes.length ? `, ${state.changes.join('; ')}` : ''}${state.reason ? ` – ${state.reason}` : ''}</span></div>`)}</td>
      <td>${operator.parallelism.map((number) => number ?? '–').join(' → ')}</td></tr>`))}
    ${report.sources?.length ? table('Sources', ['Source', 'Outcome'], report.sources.map((source) => html`<tr><th scope="row">${source.uid}</th><td>${badge(source.outcome)}</td></tr>`)) : ''}`;
}
