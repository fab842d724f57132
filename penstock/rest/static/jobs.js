// The page of all jobs of the registry, running and ended.
import { get, Refused, send } from './server.js';
import { count, plural, short, span, time, visible, when } from './texts.js';
import { badge, banner, card, Component, empty, facts, html, path, render, table } from './view.js';

const PERIOD_MS = 2000;
const RESUMED = new Set(['SUSPENDED', 'LOST', 'FAILED']);
const RUNNING = new Set(['RUNNING', 'RESTARTING', 'FAILING', 'CREATED', 'INITIALIZING', 'CANCELLING']);

const COLUMNS = ['Name', 'Status', 'Started', ['Duration', 'number'], ['Attempt', 'number'], ['Checkpoint', 'number'], ['Rows', 'number']];

const line = (job, more = '') => html`<tr key=${job.id}><th scope="row" class="job-name"><a href="#/jobs/${job.id}">${job.name}</a></th><td>${badge(job.status)}</td><td title=${time(job.started)}>${when(job.started).slice(0, -4)}</td>
  <td class="number">${span((job.ended ?? job.updated) - job.started)}</td><td class="number">${job.attempt}</td><td class="number">${job['last-checkpoint'] ?? '–'}</td><td class="number">${short(job.rows)}</td>${more}</tr>`;

class Jobs extends Component {
  constructor() {
    super();
    this.state = { jobs: null, job: null, gone: null, words: '', failure: null };
  }

  componentDidMount() {
    addEventListener('hashchange', () => this.setState({ job: null, failure: null }, () => this.ask()));
    document.addEventListener('visibilitychange', () => this.ask());
    this.ask();
  }

  id() { return /^#\/jobs\/([0-9a-f]{32})$/.exec(location.hash)?.[1]; }

  async ask() {
    clearTimeout(this.timer);
    if (document.hidden) return;
    try {
      const id = this.id();
      if (id) this.setState({ job: await get(`/registry/${id}`), gone: null });
      else this.setState({ ...(await get('/registry')), gone: null });
    } catch (error) {
      this.setState(error instanceof Refused && error.status !== 401 ? { failure: error.message } : { gone: error instanceof Refused ? 'This session has ended' : 'The command has ended' });
    }
    this.timer = setTimeout(() => this.ask(), PERIOD_MS);
  }

  async open(id) {
    this.setState({ failure: null });
    try {
      location.assign((await send('POST', `/registry/${id}/link`)).link);
    } catch (error) {
      this.setState({ failure: error.message });
    }
  }

  render(_, { jobs, job, gone, failure }) {
    document.title = job ? visible(job.name) : 'Jobs – Penstock';
    return html`<main id="main">
      <header class="top"><div class="who-is-it"><span class="mark" aria-hidden="true"></span><h1>${job ? job.name : 'Jobs'}</h1></div>${job?.['has-page'] ? html`<button class="main" type="button" onClick=${() => this.open(job.id)}>Open its page</button>` : ''}</header>
      ${gone ? banner('bad', gone, html`Run <code>penstock dashboard</code> again.`, 'alert') : ''}${failure ? banner('bad', 'That did not work', failure, 'alert') : ''}
      ${this.id() ? job ? this.one(job) : '' : jobs ? this.all(jobs) : html`<p class="note">Loading …</p>`}</main>`;
  }

  all(jobs) {
    if (jobs.length === 0) return card('', empty('No job yet', html`Start one with <code>penstock run job.py</code>, or see a first one with <code>penstock demo</code>.`));
    const running = jobs.filter((job) => RUNNING.has(job.status)), others = jobs.filter((job) => !RUNNING.has(job.status));
    return html`${card('Running', this.running(running), { note: plural(running.length, 'job') })}${card('Ended, suspended or lost', this.others(others), { note: plural(others.length, 'job') })}`;
  }

  running(jobs) {
    return table('Jobs that run', [...COLUMNS, ['Rows/s', 'number'], 'Page'], jobs.map((job) => line(job, html`<td class="number">${count(job['rows-per-s'])}</td>
      <td>${job['has-page'] ? html`<button type="button" class="link" onClick=${() => this.open(job.id)} aria-label="Open the page of ${visible(job.name)}">Open</button>` : '–'}</td>`)), 'No job is running.');
  }

  others(jobs) { return table('Jobs that do not run', COLUMNS, jobs.map((job) => line(job)), 'None.'); }

  one(job) {
    return html`<p class="back"><a href="#/">← All jobs</a></p>
      ${job.failure ? banner('bad', 'The job has failed', html`<pre>${job.failure}</pre>`) : ''}
      ${card('', html`<div class="two">${facts([['Status', badge(job.status)], ['Id', path(job.id)], ['Started', time(job.started)], ['Ended', time(job.ended)], ['Duration', span((job.ended ?? job.updated) - job.started)], ['Rows', count(job.rows)], ['Attempts', job.attempt], ['Parallelism', job.parallelism], ['Last checkpoint', job['last-checkpoint']]])}</div>`)}
      ${card('Checkpoints that its log retains', job.problem ? banner('warn', 'The job log cannot be read', job.problem) : table('Retained checkpoints', ['ID', 'Time', ['Epoch', 'number'], ['Parallelism', 'number'], 'Path'], job.checkpoints.map((kept) => html`<tr><th scope="row">${kept.checkpoint}</th><td>${when(kept.time_ms)}</td><td class="number">${count(kept.epoch)}</td><td class="number">${kept.parallelism ?? '–'}</td><td>${path(kept.path)}</td></tr>`), 'None: the job cannot go on from a checkpoint.'), { note: html`go on with <code>penstock run ${RESUMED.has(job.status) ? '--resume' : '-s PATH'} job.py</code>` })}
      ${card('Statuses', table('Statuses', ['Status', 'Since'], [...job.transitions].reverse().map((change) => html`<tr><th scope="row">${badge(change.status)}</th><td>${time(change.at_ms)}</td></tr>`)))}
      ${job.failures.length ? card('Why attempts have failed', html`${job.failures.map((found) => html`<article class="failure-line"><p><b>${found.error}</b> <span class="note">attempt ${found.attempt}, ${time(found.at_ms)}</span></p><pre>${found.message}</pre></article>`)}`) : ''}`;
  }
}

const root = document.getElementById('page');
root.replaceChildren();
render(html`<${Jobs} />`, root);
