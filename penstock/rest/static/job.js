// The page of the job itself: how it is doing, its graph, its rows per second, and where the time of its epochs goes.
import { BarChart, LineChart } from './charts.js';
import { graph } from './graph.js';
import { rescales } from './rescale.js';
import { bytes, chain, count, duration, percent, plural, short, span } from './texts.js';
import { banner, card, Component, empty, html, stat, table } from './view.js';

const FAR = 8.64e15;
const PHASES = [['scheduling-ms', 'Spark scheduling'], ['reading-ms', 'Read and shuffle'], ['functions-ms', 'Python functions'], ['state-ms', 'State'], ['sealing-ms', 'Sealing'], ['committing-ms', 'Commit']];
const SHOWN = 60;

export const lagOf = (watermark, now) => (watermark === null || watermark === undefined || Math.abs(watermark) > FAR ? null : Math.max(0, now - watermark));

export function flowsOf(subtasks, now) {
  // What the stages do, from what their subtasks do. Of the load the busiest subtask counts: it holds up the others.
  const flows = {};
  for (const found of subtasks ?? []) {
    const flow = (flows[found.vertex] ??= { in: 0, out: 0, busy: 0, pressured: 0, lag: null });
    flow.in += found['rows-in-per-s'];
    flow.out += found['rows-out-per-s'];
    if (found['busy-ms-per-s'] + found['back-pressured-ms-per-s'] >= 1000 * (flow.busy + flow.pressured)) {
      flow.busy = found['busy-ms-per-s'] / 1000;
      flow.pressured = found['back-pressured-ms-per-s'] / 1000;
    }
    const lag = lagOf(found.watermark, now);
    if (lag !== null) flow.lag = Math.max(flow.lag ?? 0, lag);
  }
  return flows;
}

export class JobPage extends Component {
  constructor() {
    super();
    this.narrow = matchMedia('(max-width: 720px)');
    this.change = () => this.setState({});
    this.narrow.addEventListener('change', this.change);
  }

  componentWillUnmount() { this.narrow.removeEventListener('change', this.change); }

  render({ figures, data, link, now, checkpoints, rates, epochs, plan, marks }) {
    return html`
      ${figures.phase && link === 'live' ? banner('warn', 'Starting', figures.phase) : ''}
      ${figures.failure ? banner('bad', 'The job has failed', html`<pre>${figures.failure}</pre>`) : ''}
      ${stats(figures, now, checkpoints)}
      ${card('Graph', html`<div class="scroll graph-scroll" tabindex="0" role="region" aria-label="Graph">${graph(plan, flowsOf(figures.subtasks, now), this.narrow.matches)}</div>
        <p class="legend"><span><i class="busy"></i>busy</span><span><i class="pressured"></i>held up by the reader of its output</span><span><i class="track"></i>idle</span></p>`, { note: 'the busiest subtask of each stage, over ten seconds' })}
      <div class="columns">
        ${card('Rows per second', html`<${LineChart} label="Rows per second" points=${rates} text=${short} marks=${marks} />`)}
        ${card('Where the time of epochs went', epochChart(epochs), { note: epochs.length ? `epoch ${epochs[epochs.length - 1].epoch}` : '' })}
      </div>
      ${data ? rescales(data) : ''}
      ${card('Subtasks', subtasks(figures, now, plan))}
      ${card('Processes', processes(figures))}`;
  }
}

function stats(figures, now, checkpoints) {
  const last = checkpoints?.latest.completed, lag = lagOf(figures.watermark, now), isRunning = figures.state === 'RUNNING';
  return html`<dl class="stats">
    ${stat('Rows per second', count(figures['rows-per-s']), figures['has-backlog'] ? 'more input waits' : isRunning ? 'over five seconds' : 'not running')}
    ${stat('Rows read', short(figures.rows + figures['epoch-rows']), [figures['rows-late'] ? `${short(figures['rows-late'])} came too late` : '', figures['rows-dropped'] ? `${short(figures['rows-dropped'])} had no time` : ''].filter(Boolean).join(', ') || 'since the start')}
    ${stat('Watermark', lag === null ? '–' : span(lag), lag === null ? 'no event time yet' : 'behind the clock', lag > 600_000 ? 'warn' : '')}
    ${stat('Epoch', count(figures.epoch), `attempt ${figures.attempt}`)}
    ${stat('Last checkpoint', last ? html`<a href="#/checkpoints/${last.id}">${last.id}</a>` : '–', last ? `${span(now - last.trigger_timestamp - last.end_to_end_duration)} ago` : checkpoints ? 'none yet' : 'turned off')}
    ${stat('State', last ? bytes(last.state_size) : '–', last ? `took ${duration(last.end_to_end_duration)} to save` : 'known after a checkpoint')}
  </dl>`;
}

function epochChart(epochs) {
  const names = PHASES.map(([, name]) => name);
  const bars = epochs.slice(-SHOWN).map((epoch) => {
    const took = epoch['committed-ms'] - epoch['started-ms'];
    const parts = PHASES.map(([key]) => epoch.phases?.[key] ?? 0);
    const rest = took - parts.reduce((sum, part) => sum + part, 0);
    return {
      name: String(epoch.epoch), parts: [parts[0], parts[1] + Math.max(rest, 0), ...parts.slice(2)], mark: epoch.checkpoint !== null,
      title: `Epoch ${epoch.epoch}: ${duration(took)}`,
      note: `${plural(epoch['rows-in'], 'row')} in, ${count(epoch['rows-out'])} out${epoch.checkpoint === null ? '' : `, checkpoint ${epoch.checkpoint}`}`,
    };
  });
  return html`<${BarChart} label="Duration of epochs" bars=${bars} names=${names} text=${duration} slots=${30} />
    <p class="legend">${names.map((name, index) => html`<span><i class="c${index + 1}"></i>${name}</span>`)}<span><i class="round"></i>with a checkpoint</span></p>`;
}

function subtasks({ subtasks: found }, now, plan) {
  const names = Object.fromEntries(plan.boxes.map((box) => [box.id, chain(box.name)]));
  if (!found?.length) return empty('No subtask has reported yet', 'They report with each epoch that is committed.');
  return table('Subtasks', ['Subtask', ['Rows in', 'number'], ['Rows out', 'number'], ['In per second', 'number'], ['Busy', 'number'], ['Held up', 'number'], ['Watermark lag', 'number'], ['Rows waiting', 'number']], found.map((one) => html`<tr>
    <th scope="row">${names[one.vertex] ?? one.vertex} <em>${one.subtask}</em></th><td class="number">${count(one['rows-in'])}</td><td class="number">${count(one['rows-out'])}</td><td class="number">${short(one['rows-in-per-s'])}</td>
    <td class="number">${percent(one['busy-ms-per-s'] / 1000)}</td><td class="number">${percent(one['back-pressured-ms-per-s'] / 1000)}</td><td class="number">${span(lagOf(one.watermark, now))}</td><td class="number">${count(one['rows-waiting'])}</td></tr>`));
}

function processes({ processes: found }) {
  return table('Processes of the job', ['Role', 'Host', ['Process', 'number'], 'Subtasks'], found.map((process) => html`<tr>
    <th scope="row">${process.role}</th><td>${process.host}</td><td class="number">${process.pid}</td><td class="wide">${process.subtasks.join(', ') || '–'}</td></tr>`));
}
