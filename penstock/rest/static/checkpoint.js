// One checkpoint: what it is, where its time went down to the subtask, and what to do if it failed.
import { legend } from './charts.js';
import { acknowledged, bytes, clock, duration, time, when } from './texts.js';
import { badge, banner, card, empty, facts, html, path, table } from './view.js';
import { inFlight } from './checkpoints.js';

const PHASES = [['c1', 'Start delay', (part) => part.start_delay], ['c2', 'Alignment', (part) => part.alignment.duration], ['c5', 'Sealed (sync)', (part) => part.checkpoint.sync], ['c3', 'Written (async)', (part) => part.checkpoint.async]];

const ADVICE = [
  [/not written within/, 'It took longer than the timeout of checkpoints. A savepoint holds all state: raise the timeout, or take it in the native format, which is faster.'],
  [/expired/i, 'It took longer than the timeout. Completed checkpoints show which part takes long. A long alignment means that rows wait behind a slow function: give the job more subtasks, or turn on unaligned checkpoints. A long write means slow storage or much state: take checkpoints incrementally, or raise the timeout.'],
  [/asynchronous/i, 'A subtask could not write its files. The log of that TaskManager has the error: most often storage that is full, slow or no longer permits writing.'],
  [/declined/i, 'A subtask could not seal its state. The exceptions page or the TaskManager’s log has the error of snapshot_state or of the state backend.'],
  [/finalize/i, 'All subtasks had written their part, but the manifest or the job log could not be written. Check the checkpoint storage.'],
  [/IO-problem/i, 'The positions of the sources could not be written. Check the checkpoint storage and the disk of the driver.'],
  [/subsumed/i, 'A newer checkpoint was complete first. Nothing needs to be done.'],
  [/not all required tasks|shutdown|suspending/i, 'The attempt ended while it was being taken. Nothing needs to be done: the next attempt takes a new one.'],
];

const OF_SAVEPOINT = 'The job runs on. Check that the driver and all TaskManagers can write into the savepoint’s folder, and take it again. The driver’s log has more about it.';

export const adviceFor = (failure, isSavepoint) => ADVICE.find(([pattern]) => pattern.test(failure ?? ''))?.[1] ?? (isSavepoint ? OF_SAVEPOINT : 'The driver’s log has more about it.');

export function checkpointPage({ data, names, base }) {
  if (!data?.detail) return empty('This checkpoint is not known any more', html`The page keeps the last ones. <a href="#/checkpoints">All checkpoints</a>`);
  const { detail, tasks } = data, isFailed = detail.status === 'FAILED';
  return html`
    <p class="back"><a href="#/checkpoints">← All checkpoints</a></p>
    ${isFailed ? banner('bad', detail.failure_message, adviceFor(detail.failure_message, detail.is_savepoint)) : ''}
    ${card(`${detail.is_savepoint ? 'Savepoint' : 'Checkpoint'} ${detail.id}`, html`<div class="two">${facts([
      ['Status', badge(detail.status)], ['Trigger Time', time(detail.trigger_timestamp)], ['End to End Duration', duration(detail.end_to_end_duration)], ['Acknowledged', acknowledged(detail.num_acknowledged_subtasks, detail.num_subtasks)],
      ['Latest Acknowledgement', time(detail.latest_ack_timestamp)], ['Checkpointed Data Size', bytes(detail.checkpointed_size)], ['Full Checkpoint Data Size', bytes(detail.state_size)], ['Processed (persisted) in-flight data', inFlight(detail)],
      ['Checkpoint Type', detail.checkpoint_type], ['Savepoint Format', detail.savepointFormat ?? '–'], ['Discarded', detail.discarded === undefined ? '–' : detail.discarded ? 'yes' : 'no'], ['Failure Message', detail.failure_message ?? '–'],
      ['Path', path(detail.external_path)], ['Manifest', detail.external_path && !detail.discarded ? html`<a href="${base}/checkpoints/details/${detail.id}/manifest" download="checkpoint-${detail.id}.json">Download</a>` : '–'],
    ])}</div>`)}
    ${card('Where its time went', timeline(detail, tasks, names))}
    ${tasks.map((task, index) => card(names[index], subtaskTable(task, names[index]), { note: `acknowledged ${acknowledged(task.num_acknowledged_subtasks, task.num_subtasks)}, latest ${when(task.latest_ack_timestamp)}, ${duration(task.end_to_end_duration)}, ${bytes(task.checkpointed_size)} of ${bytes(task.state_size)}, ${inFlight(task)} in flight` }))}`;
}

function timeline(detail, tasks, names) {
  const parts = tasks.flatMap((task, index) => task.subtasks.filter((part) => part.status === 'completed').map((part) => ({ ...part, name: names[index] })));
  if (parts.length === 0) return empty('No subtask has acknowledged', detail.status === 'IN_PROGRESS' ? 'It is being taken.' : ' ');
  const total = Math.max(detail.end_to_end_duration, ...parts.map((part) => part.end_to_end_duration), 1);
  const written = Math.max(...parts.map((part) => part.end_to_end_duration));
  const share = (ms) => `${(100 * ms) / total}%`;
  return html`${legend([...PHASES.map(([, name]) => name), 'Manifest and job log'], [...PHASES.map(([colour]) => colour), 'c4'])}
    <div class="timeline">
      <div class="axis" aria-hidden="true"><span>triggered ${clock(detail.trigger_timestamp)}</span><span>${duration(total / 2)}</span><span>${duration(total)}</span></div>
      ${parts.map((part) => html`<div class="lane"><span class="who" title=${part.name}><b>${part.name}</b><em>${part.index}</em></span><div class="lane-bar" role="img" aria-label="${part.name} ${part.index}: ${PHASES.map(([, name, of]) => `${name} ${duration(of(part))}`).join(', ')}">${PHASES.map(([colour, name, of]) => html`<i class=${colour} style=${{ width: share(of(part)) }} title="${name}: ${duration(of(part))}"></i>`)}</div></div>`)}
      ${detail.status === 'COMPLETED' ? html`<div class="lane"><span class="who"><b>driver</b></span><div class="lane-bar" role="img" aria-label="Manifest and job log: ${duration(Math.max(0, total - written))}"><i style=${{ width: share(written) }}></i><i class="c4" style=${{ width: share(Math.max(total - written, total / 200)) }} title="Manifest and job log: ${duration(Math.max(0, total - written))}"></i></div></div>` : ''}
    </div>
    ${steps(detail)}`;
}

function steps(detail) {
  const found = [['triggered', detail.trigger_timestamp], ['all written', detail.latest_ack_timestamp], ['complete', detail.status === 'COMPLETED' ? detail.trigger_timestamp + detail.end_to_end_duration : null], ['sinks committed', detail.sinks_committed_timestamp], ['functions notified', detail.notified_timestamp]];
  return html`<ol class="steps">${found.filter(([, at]) => at !== undefined).map(([name, at]) => html`<li class=${at === null || at < 0 ? 'open' : ''}><b>${name}</b><span>${at === null || at < 0 ? 'not yet' : `+ ${duration(at - detail.trigger_timestamp)}`}</span></li>`)}</ol>`;
}

function spreadRows(summary) {
  const kinds = [['Minimum', 'min'], ['Average', 'avg'], ['Maximum', 'max']];
  return kinds.map(([name, key]) => html`<tr class="spread"><th scope="row">${name}</th><td></td><td class="number">${duration(summary.end_to_end_duration[key])}</td><td class="number">${bytes(summary.checkpointed_size[key])}</td><td class="number">${bytes(summary.state_size[key])}</td>
    <td class="number">${duration(summary.checkpoint_duration.sync[key])}</td><td class="number">${duration(summary.checkpoint_duration.async[key])}</td><td class="number">${bytes(summary.alignment.processed[key])} (${bytes(summary.alignment.persisted[key])})</td>
    <td class="number">${duration(summary.alignment.duration[key])}</td><td class="number">${duration(summary.start_delay[key])}</td><td></td></tr>`);
}

const subtaskTable = (task, name) => table(`Subtasks of ${name}`, ['ID', 'Acknowledged', ['End to End Duration', 'number'], ['Checkpointed Data Size', 'number'], ['Full Checkpoint Data Size', 'number'], ['Sync Duration', 'number'], ['Async Duration', 'number'], ['Processed (persisted) Data', 'number'], ['Alignment Duration', 'number'], ['Start Delay', 'number'], 'Unaligned Checkpoint'], [
  ...(task.subtasks.some((part) => part.status === 'completed') ? spreadRows(task.summary) : []),
  ...task.subtasks.map((part) => (part.status !== 'completed' ? html`<tr><th scope="row">${part.index}</th><td colspan="10" class="note">not acknowledged</td></tr>` : html`<tr>
    <th scope="row">${part.index}</th><td title=${time(part.ack_timestamp)}>${when(part.ack_timestamp)}</td><td class="number">${duration(part.end_to_end_duration)}</td><td class="number">${bytes(part.checkpointed_size)}</td><td class="number">${bytes(part.state_size)}</td>
    <td class="number">${duration(part.checkpoint.sync)}</td><td class="number">${duration(part.checkpoint.async)}</td><td class="number">${bytes(part.alignment.processed)} (${bytes(part.alignment.persisted)})</td>
    <td class="number">${duration(part.alignment.duration)}</td><td class="number">${duration(part.start_delay)}</td><td>${part.unaligned_checkpoint ? 'yes' : 'no'}</td></tr>`)),
]);
