// Checkpoints: overview, history, summary and configuration. Labels are Flink's.
import { BarChart } from './charts.js';
import { acknowledged, bytes, count, duration, time, when } from './texts.js';
import { badge, card, empty, facts, html, path, table } from './view.js';

const NEVER = 9223372036854775000;
const enabled = (value) => (value ? 'Enabled' : 'Disabled');
const NO_CHANGELOG = 'Not available: there is no state changelog';
export const inFlight = (found) => `${bytes(found.processed_data)} (${bytes(found.persisted_data)})`;
const ended = (found) => (found.end_to_end_duration < 0 ? -1 : found.trigger_timestamp + found.end_to_end_duration);

export function checkpointsPage({ checkpoints, data: config }) {
  if (!checkpoints) return empty('This job takes no checkpoints', html`Without them it cannot go on after a failure. A program turns them on with <code>env.enable_checkpointing(10_000)</code>.`);
  const { counts, latest, history, summary } = checkpoints;
  return html`
    <dl class="stats five">${[['Triggered', counts.total], ['In Progress', counts.in_progress], ['Completed', counts.completed], ['Failed', counts.failed], ['Restored', counts.restored]].map(([name, value]) => html`<div class="stat"><dt>${name}</dt><dd class=${name === 'Failed' && value ? 'bad' : ''}>${count(value)}</dd></div>`)}</dl>
    ${charts(history)}
    <div class="columns">${overview(latest)}</div>
    ${card('History', historyTable(history))}
    ${card('Summary', summaryTable(summary), { note: 'of completed checkpoints' })}
    ${config ? card('Configuration', html`<div class="two">${configuration(config)}</div>`) : ''}`;
}

function charts(history) {
  const shown = [...history].reverse().filter((found) => found.status !== 'IN_PROGRESS');
  const bars = (of, text) => shown.map((found) => ({ name: String(found.id), parts: [Math.max(0, of(found))], tone: found.status === 'FAILED' ? 'bad' : found.is_savepoint ? 'c6' : undefined, title: `${found.is_savepoint ? 'Savepoint' : 'Checkpoint'} ${found.id}`, note: found.status === 'FAILED' ? 'failed' : '' }));
  const alignment = (found) => Math.max(0, ...Object.values(found.tasks).map((task) => task.alignment_duration ?? 0));
  return html`<div class="columns three">
    ${card('End to End Duration', html`<${BarChart} label="End to End Duration" bars=${bars((found) => found.end_to_end_duration)} names=${['Duration']} text=${duration} height=${132} slots=${12} classes=${['c3']} />`)}
    ${card('Checkpointed Data Size', html`<${BarChart} label="Checkpointed Data Size" bars=${bars((found) => found.checkpointed_size)} names=${['Size']} text=${bytes} base=${1024} height=${132} slots=${12} classes=${['c4']} />`)}
    ${card('Alignment Duration', html`<${BarChart} label="Alignment Duration" bars=${bars(alignment)} names=${['Alignment']} text=${duration} height=${132} slots=${12} classes=${['c2']} />`, { note: 'longest subtask' })}
  </div>`;
}

function overview({ completed, failed, savepoint, restored }) {
  return html`
    ${card('Latest Completed Checkpoint', completed ? facts([['ID', html`<a href="#/checkpoints/${completed.id}">${completed.id}</a>`], ['Completion Time', time(ended(completed))], ['End to End Duration', duration(completed.end_to_end_duration)], ['Checkpointed Data Size', bytes(completed.checkpointed_size)], ['Full Checkpoint Data Size', bytes(completed.state_size)]]) : empty('None yet', 'The first one comes after the first interval.'))}
    ${card('Latest Failed Checkpoint', failed ? facts([['ID', html`<a href="#/checkpoints/${failed.id}">${failed.id}</a>`], ['Failure Time', time(failed.failure_timestamp)], ['Cause', failed.failure_message]]) : empty('None', 'No checkpoint has failed.'))}
    ${card('Latest Savepoint', savepoint ? facts([['ID', html`<a href="#/checkpoints/${savepoint.id}">${savepoint.id}</a>`], ['Completion Time', time(ended(savepoint))], ['Checkpointed Data Size', bytes(savepoint.checkpointed_size)], ['Full Checkpoint Data Size', bytes(savepoint.state_size)], ['Savepoint Format', savepoint.savepointFormat], ['Path', path(savepoint.external_path)]]) : empty('None', html`<a href="#/savepoints">Take a savepoint</a> before a change of the program.`))}
    ${card('Latest Restore', restored ? facts([['ID', restored.id], ['Restore Time', time(restored.restore_timestamp)], ['Type', restored.is_savepoint ? 'Savepoint' : 'Checkpoint'], ['Path', path(restored.external_path)]]) : empty('None', 'The job has started from nothing and has not failed since.'))}`;
}

const historyTable = (history) => table('The last checkpoints, newest first', ['ID', 'Status', 'Acknowledged', 'Trigger Time', 'Latest Acknowledgement', ['End to End Duration', 'number'], ['Checkpointed Data Size', 'number'], ['Full Checkpoint Data Size', 'number'], ['Processed (persisted) in-flight data', 'number']], history.map((found) => html`<tr key=${`${found.is_savepoint}${found.id}`}>
  <th scope="row"><a href="#/checkpoints/${found.id}">${found.id}</a></th><td>${badge(found.status)}${found.is_savepoint ? html` <span class="tag">Savepoint</span>` : ''}</td><td>${acknowledged(found.num_acknowledged_subtasks, found.num_subtasks)}</td>
  <td title=${time(found.trigger_timestamp)}>${when(found.trigger_timestamp)}</td><td title=${time(found.latest_ack_timestamp)}>${when(found.latest_ack_timestamp)}</td><td class="number">${duration(found.end_to_end_duration)}</td>
  <td class="number">${bytes(found.checkpointed_size)}</td><td class="number">${bytes(found.state_size)}</td><td class="number">${inFlight(found)}</td></tr>`), 'No checkpoint yet: the first one comes after the first interval.');

const summaryTable = (summary) => table('Summary of completed checkpoints', ['Figure', ...['Minimum', 'Average', 'Maximum', 'p50', 'p90', 'p95', 'p99', 'p99.9'].map((name) => [name, 'number'])], [
  ['End to End Duration', summary.end_to_end_duration, duration], ['Checkpointed Data Size', summary.checkpointed_size, bytes], ['Full Checkpoint Data Size', summary.state_size, bytes],
  ['Processed in-flight data', summary.processed_data, bytes], ['Persisted in-flight data', summary.persisted_data, bytes],
].map(([name, found, text]) => html`<tr><th scope="row">${name}</th>${['min', 'avg', 'max', 'p50', 'p90', 'p95', 'p99', 'p999'].map((key) => html`<td class="number">${text(found[key])}</td>`)}</tr>`));

function configuration(config) {
  const outside = config.externalization;
  return facts([
    ['Checkpointing Mode', config.mode === 'exactly_once' ? 'Exactly Once' : 'At Least Once'], ['Checkpoint Storage', config.checkpoint_storage], ['State Backend', config.state_backend],
    ['Interval', config.interval > NEVER ? 'Periodic checkpoints disabled' : duration(config.interval)], ['Timeout', duration(config.timeout)],
    ['Minimum Pause Between Checkpoints', duration(config.min_pause)], ['Maximum Concurrent Checkpoints', config.max_concurrent], ['Unaligned Checkpoints', enabled(config.unaligned_checkpoints)],
    ['Aligned checkpoint timeout', duration(config.aligned_checkpoint_timeout)],
    ['Persist Checkpoints Externally', outside.enabled ? `Enabled (${outside.delete_on_cancellation ? 'delete' : 'retain'} on cancellation)` : 'Disabled'],
    ['Tolerable Failed Checkpoints', config.tolerable_failed_checkpoints], ['Checkpoints With Finished Tasks', enabled(config.checkpoints_after_tasks_finish)],
    ['State Changelog', enabled(config.state_changelog_enabled)], ['Changelog Storage', config.changelog_storage ?? NO_CHANGELOG], ['Changelog Periodic Materialization Interval', config.changelog_periodic_materialization_interval ?? NO_CHANGELOG],
  ]);
}
