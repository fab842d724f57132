// The page of one job: its frame, and which view is open.
import { checkpointPage } from './checkpoint.js';
import { checkpointsPage } from './checkpoints.js';
import { JobPage } from './job.js';
import { Live } from './live.js';
import { ConfigurationPage, exceptionsPage, guaranteesPage, loadConfiguration, LogsPage } from './records.js';
import { Rescale } from './rescale.js';
import { SavepointsPage } from './savepoints.js';
import { finished, get, getOrNull } from './server.js';
import { loadState, StatePage } from './state.js';
import { chain, compact, time, visible } from './texts.js';
import { badge, banner, Component, Copied, empty, html, icon, path, render, tone } from './view.js';

const VIEWS = [
  // Where it is, its name, what it loads from the server, and what must change before it loads that again.
  ['', 'Job', (base) => get(`${base}/rescaling`), (state) => `${state.figures['last-rescale-at']} ${state.figures.parallelism}`],
  ['checkpoints', 'Checkpoints', loadCheckpoints, (state, rest) => (rest[0] ? JSON.stringify(state.figures.checkpoints) : '')],
  ['state', 'State', loadState, (state) => `${JSON.stringify(state.figures.checkpoints)} ${state.figures.attempt}`],
  ['savepoints', 'Savepoints', null, null],
  ['exceptions', 'Exceptions', async (base) => (await get(`${base}/exceptions`)).exceptionHistory, (state) => `${state.figures.failures}/${state.figures.attempt}`],
  ['configuration', 'Configuration', loadConfiguration, (state) => String(state.figures.parallelism)],
  ['guarantees', 'Guarantees', (base) => get(`${base}/guarantees`), () => ''],
  ['logs', 'Logs', null, null],
];

async function loadCheckpoints(base, [number], state) {
  if (number === undefined) return state.figures.checkpoints && get(`${base}/checkpoints/config`);
  const detail = await getOrNull(`${base}/checkpoints/details/${encodeURIComponent(number)}`);
  const tasks = detail ? await Promise.all(state.job.vertices.map((vertex) => getOrNull(`${base}/checkpoints/details/${encodeURIComponent(number)}/subtasks/${vertex.id}`))) : [];
  return { detail, tasks: tasks.filter(Boolean) };
}

class Page extends Component {
  constructor() {
    super();
    this.live = new Live(() => { this.setState({}); this.load(); });
    this.state = { place: [], data: null, loaded: null, operation: null, rescales: false };
    this.operate = this.operate.bind(this);
  }

  componentDidMount() {
    addEventListener('hashchange', () => this.go());
    this.ticking = setInterval(() => { if (!document.hidden && this.live.state.link === 'live') this.setState({}); }, 1000);
    this.go();
    this.live.open();
  }

  go() {
    this.setState({ place: location.hash.replace(/^#\/?/, '').split('/').filter(Boolean), data: null, loaded: null }, () => {
      this.load();
      document.querySelector('nav [aria-current]')?.scrollIntoView({ inline: 'center', block: 'nearest' }); // a phone shows a few of them
      scrollTo(0, 0);
    });
  }

  view() { return VIEWS.find(([where]) => where === (this.state.place[0] ?? '')); }

  async load() {
    // What the open view needs, if it is new or has changed.
    const [, , ask, keyOf] = this.view() ?? [], known = this.live.state;
    if (!ask || !known.figures) return;
    const place = this.state.place, key = `${place.join('/')} ${keyOf(known, place.slice(1))}`;
    if (this.state.loaded === key) return;
    this.setState({ loaded: key });
    this.state.loaded = key;
    try {
      const data = await ask(this.live.base, place.slice(1), known);
      if (this.state.place === place) this.setState({ data });
    } catch {
      this.state.loaded = null; // the next change asks again
    }
  }

  async operate(name, request, results, describe) {
    // An operation of the server, whose progress is shown on every view.
    this.setState({ operation: { name, runs: true, progress: 0 } });
    try {
      const started = await request();
      const found = await finished(`${results}/${started['request-id']}`, (progress) => this.setState({ operation: { name, runs: true, progress } }));
      const [title, text] = describe(found);
      this.setState({ operation: { name: title, text, tone: 'good' } });
    } catch (error) {
      this.setState({ operation: { name: `${name}: failed`, text: error.message, tone: 'bad' } });
    }
  }

  content() {
    const { place, data, operation } = this.state, known = this.live.state, base = this.live.base;
    const now = Date.now() + known.ahead, [view, number] = place;
    const all = { ...known, now, data, operation, base, operate: this.operate };
    if (view === undefined) return html`<${JobPage} ...${all} now=${known.link === 'live' ? now : known.figures.now} />`;
    if (view === 'checkpoints') return number === undefined ? checkpointsPage(all) : data ? checkpointPage({ ...all, names: known.job.vertices.map((vertex) => chain(vertex.name)) }) : '';
    if (view === 'state') return html`<${StatePage} ...${all} />`;
    if (view === 'savepoints') return html`<${SavepointsPage} ...${all} />`;
    if (view === 'exceptions') return exceptionsPage(all);
    if (view === 'configuration') return html`<${ConfigurationPage} ...${all} />`;
    if (view === 'guarantees') return guaranteesPage(all);
    if (view === 'logs') return html`<${LogsPage} read=${(level) => get(`${base}/logs?level=${level}&last=400`)} isOver=${known.link !== 'live'} />`;
    return empty('There is no such page', html`<a href="#/">The job</a>`);
  }

  render(_, { place, operation, rescales }) {
    const { job, figures, link, gone, ahead, plan } = this.live.state;
    if (!job) return html`<div class="opening">${gone ? closed(gone) : 'Loading …'}</div>`;
    const status = link === 'gone' && gone !== 'session' ? 'LOST' : figures.state, isRunning = link === 'live' && figures.state === 'RUNNING';
    const name = VIEWS.find(([where]) => where === (place[0] ?? ''))?.[1] ?? 'Not found';
    document.title = `${name} – ${visible(job.name)}`;
    const now = link === 'live' ? Date.now() + ahead : figures.now;
    return html`
      <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById('main').focus(); }}>Skip to the content</a>
      <aside>
        <div class="who-is-it"><span class="mark" aria-hidden="true"></span><div><h1>${job.name}</h1><p>${badge(status)}<span>${compact((figures['end-time'] ?? now) - figures['start-time'])}</span></p></div></div>
        <nav aria-label="Pages">${VIEWS.map(([where, title]) => html`<a href="#/${where}" aria-current=${(place[0] ?? '') === where ? 'page' : undefined}>${icon(where || 'job')}${title}${where === 'exceptions' && figures.failures ? html`<span class="count">${figures.failures}</span>` : ''}</a>`)}</nav>
        <div class="about"><${Copied} text=${job.jid} shown=${`${job.jid.slice(0, 8)}…`} /><span class="connection ${link}">${{ live: 'Live', opening: 'Connecting', gone: 'No answer', ended: 'Ended' }[link]}</span></div>
      </aside>
      <main id="main" tabindex="-1">
        <header class="top"><h2>${name}</h2><div class="actions"><button type="button" disabled=${!isRunning || Boolean(operation?.runs)} onClick=${() => this.setState({ rescales: true })}>Rescale</button></div></header>
        ${this.end(status)}
        ${operation ? this.operation(operation) : ''}
        ${this.content()}
      </main>
      ${rescales ? html`<${Rescale} parallelism=${figures.parallelism} most=${plan['max-parallelism']} base=${this.live.base} operate=${this.operate} close=${() => this.setState({ rescales: false })} />` : ''}`;
  }

  operation({ name, runs, progress, text, tone: found }) {
    if (runs) return html`<div class="banner accent" role="status"><strong>${name}</strong><div class="progress"><progress max="100" value=${progress} aria-label=${name}></progress><span>${progress} %</span></div></div>`;
    return html`<div class="banner ${found}" role="status"><strong>${name}</strong><div>${text}</div><button class="plain dismiss" type="button" aria-label="Dismiss" onClick=${() => this.setState({ operation: null })}>✕</button></div>`;
  }

  end(status) {
    // What is said about a job that has ended, or whose driver does not answer.
    const { figures, checkpoints, link, gone, ahead } = this.live.state;
    if (gone === 'session') return banner('bad', 'This session has ended', html`The job was started again. Run <code>penstock dashboard ${this.live.state.job.jid.slice(0, 8)}</code> for a new link.`, 'alert');
    if (link !== 'gone' && link !== 'ended') return '';
    const last = checkpoints?.latest.completed;
    const from = last ? html`Its last checkpoint is <a href="#/checkpoints/${last.id}">${last.id}</a>, at ${path(last.external_path)}` : 'It has no complete checkpoint.';
    const [title, hint] = {
      LOST: ['The driver of the job does not answer', html`What you see is from ${time(figures.now)}. If the process is gone, go on from that checkpoint with <code>penstock run --resume</code>.`],
      SUSPENDED: ['The job is suspended', html`Go on with <code>penstock run --resume</code>.`],
      FAILED: ['The job has failed', html`The <a href="#/exceptions">exceptions</a> say why. Once that is mended, go on with <code>penstock run --resume</code>.`],
      FINISHED: ['The job has finished', 'It has read all its input, or was stopped with a savepoint.'],
      CANCELED: ['The job was cancelled', ''],
    }[status] ?? [`The job is ${status}`, ''];
    return banner(tone(status), title, html`<p>${from}</p><p>${hint}</p>`, 'alert');
  }
}

const closed = (gone) => (gone === 'session' ? banner('bad', 'This page needs a session', html`Run <code>penstock dashboard</code> for a new link.`, 'alert') : banner('bad', 'The driver of the job does not answer', 'The page asks again every two seconds.', 'alert'));

const root = document.getElementById('page');
root.replaceChildren();
render(html`<${Page} />`, root);
