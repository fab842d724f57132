// Savepoints: take one, stop with one, and see those that were taken.
import { finished, send } from './server.js';
import { bytes, duration, time } from './texts.js';
import { badge, Component, html, table } from './view.js';

export class Savepoints extends Component {
  constructor() {
    super();
    this.state = { busy: false, progress: 0, text: '', bad: false };
  }

  async act(kind) {
    const form = document.getElementById('savepoint'), base = `/jobs/${this.props.jobId}`;
    const target = form.elements.target.value.trim() || null, formatType = form.elements.format.value;
    if (kind === 'stop' && !confirm('Stop the job with a savepoint? It takes no more input after it.')) return;
    this.setState({ busy: true, progress: 0, text: '', bad: false });
    try {
      const [path, body, results] = {
        savepoint: ['/savepoints', { 'target-directory': target, formatType }, '/savepoints'],
        stop: ['/stop', { targetDirectory: target, formatType }, '/savepoints'],
        checkpoint: ['/checkpoints', {}, '/checkpoints'],
      }[kind];
      const started = await send('POST', base + path, body);
      const result = await finished(`${base}${results}/${started['request-id']}`, (progress) => this.setState({ progress }));
      this.setState({ text: kind === 'checkpoint' ? `Checkpoint ${result.checkpointId} is complete.` : `The savepoint is at ${result.location}` });
    } catch (error) {
      this.setState({ text: error.message, bad: true });
    }
    this.setState({ busy: false });
  }

  render({ checkpoints, job }, { busy, progress, text, bad }) {
    const taken = (checkpoints?.history ?? []).filter((found) => found.is_savepoint);
    const off = busy || job.state !== 'RUNNING';
    return html`
      <h2>Take a savepoint</h2>
      <form id="savepoint" class="card" onSubmit=${(event) => { event.preventDefault(); this.act('savepoint'); }}>
        <label>Folder (empty: the job's default)<input name="target" autocomplete="off" /></label>
        <label>Format<select name="format"><option value="CANONICAL">canonical: any backend, any parallelism</option><option value="NATIVE">native: fast, this backend</option></select></label>
        <button class="main" disabled=${off}>Take a savepoint</button>
        <button type="button" disabled=${off} onClick=${() => this.act('stop')}>Stop with a savepoint</button>
        <button type="button" disabled=${off} onClick=${() => this.act('checkpoint')}>Checkpoint now</button>
      </form>
      <div role="status">${busy ? html`<p><progress max="100" value=${progress} aria-label="Progress"></progress> ${progress} %</p>` : ''}
        ${text ? html`<p class="banner ${bad ? 'bad' : 'good'}">${text}</p>` : ''}</div>
      <h2>Savepoints</h2>
      ${table('The last savepoints, newest first', ['ID', 'Status', 'Format', 'Trigger Time', 'Duration', 'Size', 'Path'], taken.map((found) => html`<tr>
        <td>${found.id}</td><td>${badge(found.status)}</td><td>${found.savepointFormat}</td><td>${time(found.trigger_timestamp)}</td><td class="number">${duration(found.end_to_end_duration)}</td>
        <td class="number">${bytes(found.state_size)}</td><td class="wide"><code>${found.external_path}</code></td></tr>`))}
      <p class="quiet">To start a job from one: <code>penstock run -s PATH job.py</code>. What a program would take from it: <code>penstock restore --check PATH job.py</code>.</p>`;
  }
}
