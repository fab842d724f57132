// The page of the job itself.
import { barChart, graph, lineChart } from './charts.js';
import { bytes, count, duration, time } from './texts.js';
import { card, html, table, tile } from './view.js';

const FAR = 8.64e15;

export function jobPage({ job, figures, checkpoints, rates }) {
  const last = checkpoints?.latest.completed;
  const watermark = figures.watermark;
  const hasWatermark = watermark !== null && Math.abs(watermark) < FAR;
  const nodes = job.plan.nodes;
  return html`
    ${figures.phase ? html`<p class="banner warn" role="status">Starting: ${figures.phase}</p>` : ''}
    ${figures.failure ? html`<p class="banner bad" role="status">${figures.failure}</p>` : ''}
    <dl class="tiles">
      ${tile('Rows per second', count(figures['rows-per-s']), figures['has-backlog'] ? 'more input waits' : '')}
      ${tile('Rows', count(figures.rows + figures['epoch-rows']))}
      ${tile('Epoch', count(figures.epoch))}
      ${tile('Watermark', hasWatermark ? duration(figures.now - watermark) : '–', hasWatermark ? 'behind the clock' : 'no event time')}
      ${tile('Last checkpoint', last ? `${last.id}` : '–', last ? `${duration(figures.now - last.trigger_timestamp)} ago, took ${duration(last.end_to_end_duration)}` : '')}
      ${tile('State', last ? bytes(last.state_size) : '–', 'in the last checkpoint')}
      ${figures['rows-late'] ? tile('Late rows', count(figures['rows-late']), 'dropped by windows') : ''}
      ${figures['rows-dropped'] ? tile('Rows without a time', count(figures['rows-dropped']), 'dropped') : ''}
    </dl>
    <div class="columns">
      ${card('Rows per second', lineChart('Rows per second', rates, count))}
      ${card('Epochs: how long each took', html`${barChart('Epochs', figures.epochs.slice(-60).map((epoch) => ({
        value: epoch['committed-ms'] - epoch['started-ms'],
        marked: epoch.checkpoint !== null,
        title: `epoch ${epoch.epoch}: ${duration(epoch['committed-ms'] - epoch['started-ms'])}, ${count(epoch['rows-in'])} rows in, ${count(epoch['rows-out'])} out${epoch.checkpoint === null ? '' : `, checkpoint ${epoch.checkpoint}`}`,
      })), duration)}<p class="legend"><span><i class="pc"></i>epoch</span><span><i class="pd"></i>epoch with a checkpoint</span></p>`)}
    </div>
    <h2>Graph</h2>
    <div class="scroll card" tabindex="0" role="region" aria-label="Graph">${graph(nodes.map((node) => ({
      id: node.id, name: node.contents, note: `parallelism ${node.parallelism}`,
      inputs: (node.predecessors ?? []).map((input) => String(input.id)),
    })))}</div>
    <h2>Processes</h2>
    ${table('Processes of the job', ['Role', 'Host', 'Process', 'Subtasks'], figures.processes.map((process) => html`<tr>
      <td>${process.role}</td><td>${process.host}</td><td class="number">${process.pid}</td><td class="wide">${process.subtasks.join(', ')}</td></tr>`))}
    <p class="quiet">Started ${time(figures['start-time'])}, attempt ${figures.attempt}, parallelism ${figures.parallelism}.</p>`;
}
