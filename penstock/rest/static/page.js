// The page: asks the job's server once a second for what the open view shows.
import { checkpointPage, checkpointsPage } from './checkpoints.js';
import { jobPage } from './job.js';
import { Savepoints } from './savepoints.js';
import { get, Refused } from './server.js';
import { duration, time } from './texts.js';
import { badge, Component, facts, html, render, table } from './view.js';

const PERIOD_MS = 1000, RATES = 600;
const VIEWS = [['', 'Job'], ['checkpoints', 'Checkpoints'], ['savepoints', 'Savepoints'], ['exceptions', 'Exceptions'], ['guarantees', 'Guarantees']];

class Page extends Component {
  constructor() {
    super();
    this.state = { view: [], rates: [], gone: null };
    this.ask = this.ask.bind(this);
  }

  componentDidMount() {
    addEventListener('hashchange', () => this.open());
    document.addEventListener('visibilitychange', this.ask);
    this.open();
  }

  open() {
    this.setState({ view: location.hash.replace(/^#\/?/, '').split('/').filter(Boolean) }, this.ask);
  }

  async ask() {
    clearTimeout(this.timer);
    if (!document.hidden) {
      try {
        this.setState({ ...(await this.look()), gone: null });
      } catch (error) {
        const closed = error instanceof Refused && error.status === 401;
        this.setState({ gone: closed ? 'This session has ended: the job was started again. Run penstock dashboard for a new link.' : 'The driver of the job does not answer.' });
      }
    }
    this.timer = setTimeout(this.ask, PERIOD_MS);
  }

  async look() {
    const id = this.state.jobId ?? (await get('/jobs')).jobs[0].id, base = `/jobs/${id}`, [view, number] = this.state.view;
    const optional = (path) => get(path).catch((error) => { if (error instanceof Refused && error.status === 404) return null; throw error; });
    const [job, figures, checkpoints] = await Promise.all([get(base), get(`${base}/figures`), optional(`${base}/checkpoints`)]);
    const found = { jobId: id, job, figures, checkpoints };
    found.rates = [...this.state.rates, [figures.now, figures['rows-per-s']]].slice(-RATES);
    if (view === 'checkpoints' && number === undefined) found.config = await optional(`${base}/checkpoints/config`);
    if (view === 'checkpoints' && number !== undefined) {
      found.detail = await optional(`${base}/checkpoints/details/${encodeURIComponent(number)}`);
      found.names = job.vertices.map((vertex) => vertex.name);
      found.tasks = found.detail ? await Promise.all(job.vertices.map((vertex) => get(`${base}/checkpoints/details/${encodeURIComponent(number)}/subtasks/${vertex.id}`))) : [];
    }
    if (view === 'exceptions') found.exceptions = (await get(`${base}/exceptions`)).exceptionHistory;
    if (view === 'guarantees') found.guarantees = await get(`${base}/guarantees`);
    return found;
  }

  content(state) {
    const [view, number] = state.view;
    if (view === undefined) return jobPage(state);
    if (view === 'checkpoints') return number === undefined ? checkpointsPage(state) : state.tasks ? checkpointPage(state) : '';
    if (view === 'savepoints') return html`<${Savepoints} ...${state} />`;
    if (view === 'exceptions') return state.exceptions ? exceptionsPage(state) : '';
    if (view === 'guarantees') return state.guarantees ? guaranteesPage(state) : '';
    return html`<p class="banner">There is no such page.</p>`;
  }

  render(_, state) {
    const { job, figures, gone, view, checkpoints } = state;
    if (!job) return html`<p class=${gone ? 'banner bad' : 'quiet'} role="status">${gone ?? 'Loading …'}</p>`;
    document.title = `${job.name} – Penstock`;
    const last = checkpoints?.latest.completed;
    return html`
      <header><h1>${job.name}</h1>${badge(gone ? 'LOST' : job.state)}<span class="quiet">for ${duration(figures.now - figures['start-time'])}</span><code class="quiet">${job.jid}</code></header>
      <nav aria-label="Pages">${VIEWS.map(([path, name]) => html`<a href="#/${path}" aria-current=${(view[0] ?? '') === path ? 'page' : undefined}>${name}</a>`)}</nav>
      ${gone ? html`<p class="banner bad" role="alert">${gone} What you see is from ${time(figures.now)}. ${last ? html`Its last checkpoint is ${last.id}, at <code>${last.external_path}</code>. Go on with <code>penstock run --resume</code>.` : ''}</p>` : ''}
      <main>${this.content(state)}</main>`;
  }
}

function exceptionsPage({ exceptions }) {
  return html`<h2>Why attempts have failed</h2>${table('Newest first', ['Time', 'Attempt', 'Error', 'Message'], exceptions.entries.map((entry) => html`<tr>
    <td>${time(entry.timestamp)}</td><td class="number">${entry.failureLabels.attempt}</td><td>${entry.exceptionName}</td><td class="wide"><pre>${entry.stacktrace}</pre></td></tr>`))}`;
}

function guaranteesPage({ guarantees }) {
  const text = (value) => (Array.isArray(value) ? (value.length === 0 ? 'none' : html`<ul>${value.map((item) => html`<li>${text(item)}</li>`)}</ul>`)
    : value !== null && typeof value === 'object' ? facts(Object.entries(value).map(([name, inner]) => [name.replaceAll('_', ' '), text(inner)])) : String(value ?? '–'));
  return html`<h2>What this job promises, from end to end</h2><div class="card">${text(guarantees)}</div>`;
}

const root = document.getElementById('page');
root.replaceChildren();
render(html`<${Page} />`, root);
