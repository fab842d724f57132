// What the job does now: its figures, by server-sent events, and what has been seen of it since the page was opened.
import { get, Refused } from './server.js';

const RATES = 600, EPOCHS = 120, RETRY_MS = 2000;

export class Live {
  // `changed` is called whenever there is something new; `state` is all that is known.
  constructor(changed) {
    this.changed = changed;
    this.state = { link: 'opening', gone: null, rates: [], epochs: [], marks: [] };
    document.addEventListener('visibilitychange', () => (document.hidden ? this.pause() : this.open()));
  }

  async open() {
    clearTimeout(this.timer);
    this.source?.close();
    try {
      const id = this.state.jobId ?? (await get('/jobs')).jobs[0].id;
      this.base = `/jobs/${id}`;
      const [job, figures, plan] = await Promise.all([get(this.base), get(`${this.base}/figures`), get(`${this.base}/graph`)]);
      const checkpoints = figures.checkpoints && await get(`${this.base}/checkpoints`);
      this.set({ jobId: id, job, plan, checkpoints, rates: figures.rates, epochs: figures.epochs, ...this.seen(figures), link: 'live', gone: null });
      this.follow();
    } catch (error) {
      this.lost(error);
    }
  }

  follow() {
    this.source = new EventSource(`${this.base}/events`);
    this.source.addEventListener('figures', (event) => this.receive(JSON.parse(event.data)));
    this.source.addEventListener('end', (event) => {
      this.source.close();
      this.receive(JSON.parse(event.data));
      this.set({ link: 'ended' });
    });
    this.source.addEventListener('error', () => {
      this.source.close();
      this.set({ link: 'opening' });
      this.timer = setTimeout(() => this.open(), 200);
    });
  }

  pause() {
    clearTimeout(this.timer);
    this.source?.close();
  }

  lost(error) {
    if (this.state.figures?.ended) return this.set({ link: 'ended' });
    const isClosed = error instanceof Refused && error.status === 401;
    this.set({ link: 'gone', gone: isClosed ? 'session' : error instanceof Refused ? 'refused' : 'driver', reason: error.message });
    if (!isClosed && !document.hidden) this.timer = setTimeout(() => this.open(), RETRY_MS);
  }

  receive(figures) {
    const before = this.state;
    const known = new Set(before.epochs.map((epoch) => epoch['committed-ms']));
    const epochs = [...before.epochs, ...figures.epochs.filter((epoch) => !known.has(epoch['committed-ms']))].slice(-EPOCHS);
    const rates = [...before.rates.filter(([at]) => at < figures.now), [figures.now, figures['rows-per-s']]].slice(-RATES);
    this.set({ epochs, rates, ...this.seen(figures) });
    this.refresh(before.figures, figures).catch(() => {});
  }

  seen(figures) {
    // The figures, how far this clock is from the job's, and what has just happened.
    const before = this.state.figures, marks = [...this.state.marks];
    if (before && figures.attempt > before.attempt) marks.push({ at: figures.now, label: figures.parallelism === before.parallelism ? 'restart' : `rescaled to ${figures.parallelism}` });
    return { figures, marks, ahead: figures.now - Date.now() };
  }

  async refresh(before, figures) {
    // Ask again for what has changed and is not in the figures.
    const tallies = JSON.stringify(figures.checkpoints);
    if (figures.checkpoints && (tallies !== JSON.stringify(before.checkpoints) || figures.attempt !== before.attempt)) this.set({ checkpoints: await get(`${this.base}/checkpoints`) });
    if (figures.parallelism !== before.parallelism || figures.attempt !== before.attempt) {
      const [job, plan] = await Promise.all([get(this.base), get(`${this.base}/graph`)]);
      this.set({ job, plan });
    }
  }

  set(change) {
    this.state = { ...this.state, ...change };
    this.changed();
  }
}
