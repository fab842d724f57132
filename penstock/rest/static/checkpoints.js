// Checkpoints: overview, history, summary, configuration, and one of them with its subtasks. Labels are Flink's.
import { barChart } from './charts.js';
import { bytes, count, duration, time } from './texts.js';
import { badge, card, facts, html, table } from './view.js';

const NEVER = 9223372036854775000;
const percent = (part, whole) => (whole ? `${part}/${whole} (${Math.floor((100 * part) / whole)}%)` : '–');
const inFlight = (found) => `${bytes(found.processed_data)} (${bytes(found.persisted_data)})`;
const enabled = (value) => (value ? 'Enabled' : 'Disabled');

export function checkpointsPage({ checkpoints, config }) {
  if (!checkpoints) return html`<p class="banner">This job takes no checkpoints. A program turns them on with <code>env.enable_checkpointing(…)</code>.</p>`;
  const { counts, latest, history, summary } = checkpoints;
  const completed = latest.completed, failed = latest.failed, savepoint = latest.savepoint, restored = latest.restored;
  const ended = [...history].reverse().filter((found) => found.status === 'COMPLETED');
  return html`
    <h2>Overview</h2>
    <div class="columns">
      ${card('Checkpoint Counts', facts([['Triggered', count(counts.total)], ['In Progress', count(counts.in_progress)], ['Completed', count(counts.completed)], ['Failed', count(counts.failed)], ['Restored', count(counts.restored)]]))}
      ${card('Latest Completed Checkpoint', completed ? facts([['ID', html`<a href="#/checkpoints/${completed.id}">${completed.id}</a>`], ['Completion Time', time(completed.trigger_timestamp + completed.end_to_end_duration)], ['End to End Duration', duration(completed.end_to_end_duration)], ['Checkpointed Data Size', bytes(completed.checkpointed_size)], ['Full Checkpoint Data Size', bytes(completed.state_size)], ['Path', html`<code>${completed.external_path}</code>`]]) : 'none')}
      ${card('Latest Failed Checkpoint', failed ? facts([['ID', html`<a href="#/checkpoints/${failed.id}">${failed.id}</a>`], ['Failure Time', time(failed.failure_timestamp)], ['Cause', failed.failure_message]]) : 'none')}
      ${card('Latest Savepoint', savepoint ? facts([['ID', savepoint.id], ['Completion Time', time(savepoint.trigger_timestamp + savepoint.end_to_end_duration)], ['Checkpointed Data Size', bytes(savepoint.checkpointed_size)], ['Full Checkpoint Data Size', bytes(savepoint.state_size)], ['Savepoint Format', savepoint.savepointFormat], ['Path', html`<code>${savepoint.external_path}</code>`]]) : 'none')}
      ${card('Latest Restore', restored ? facts([['ID', restored.id], ['Restore Time', time(restored.restore_timestamp)], ['Type', restored.is_savepoint ? 'Savepoint' : 'Checkpoint'], ['Path', html`<code>${restored.external_path ?? '–'}</code>`]]) : 'none')}
    </div>
    <h2>History</h2>
    <div class="columns">
      ${card('End to End Duration', barChart('Duration of checkpoints', ended.map((found) => ({ value: found.end_to_end_duration, title: `checkpoint ${found.id}: ${duration(found.end_to_end_duration)}` })), duration))}
      ${card('Checkpointed Data Size', barChart('Size of checkpoints', ended.map((found) => ({ value: found.checkpointed_size, title: `checkpoint ${found.id}: ${bytes(found.checkpointed_size)}` })), bytes))}
    </div><br />
    ${table('The last checkpoints, newest first', ['ID', 'Status', 'Acknowledged', 'Trigger Time', 'Latest Acknowledgement', 'End to End Duration', 'Checkpointed Data Size', 'Full Checkpoint Data Size', 'Processed (persisted) in-flight data'], history.map((found) => html`<tr>
      <td><a href="#/checkpoints/${found.id}">${found.id}</a></td><td>${badge(found.status)}${found.is_savepoint ? ' Savepoint' : ''}</td><td>${percent(found.num_acknowledged_subtasks, found.num_subtasks)}</td>
      <td>${time(found.trigger_timestamp)}</td><td>${time(found.latest_ack_timestamp)}</td><td class="number">${duration(found.end_to_end_duration)}</td>
      <td class="number">${bytes(found.checkpointed_size)}</td><td class="number">${bytes(found.state_size)}</td><td class="number">${inFlight(found)}</td></tr>`))}
    <h2>Summary</h2>
    ${table('Of completed checkpoints', ['', 'Minimum', 'Average', 'Maximum', 'p50', 'p90', 'p95', 'p99', 'p99.9'], [
      ['End to End Duration', summary.end_to_end_duration, duration], ['Checkpointed Data Size', summary.checkpointed_size, bytes],
      ['Full Checkpoint Data Size', summary.state_size, bytes], ['Processed in-flight data', summary.processed_data, bytes], ['Persisted in-flight data', summary.persisted_data, bytes],
    ].map(([name, found, text]) => html`<tr><th scope="row">${name}</th>${['min', 'avg', 'max', 'p50', 'p90', 'p95', 'p99', 'p999'].map((key) => html`<td class="number">${text(found[key])}</td>`)}</tr>`))}
    <h2>Configuration</h2>
    ${config ? html`<div class="card">${configuration(config)}</div>` : ''}`;
}

function configuration(config) {
  const outside = config.externalization;
  return facts([
    ['Checkpointing Mode', config.mode === 'exactly_once' ? 'Exactly Once' : 'At Least Once'], ['Checkpoint Storage', config.checkpoint_storage], ['State Backend', config.state_backend],
    ['Interval', config.interval > NEVER ? 'Periodic checkpoints disabled' : duration(config.interval)], ['Timeout', duration(config.timeout)],
    ['Minimum Pause Between Checkpoints', duration(config.min_pause)], ['Maximum Concurrent Checkpoints', config.max_concurrent], ['Unaligned Checkpoints', enabled(config.unaligned_checkpoints)],
    ['Aligned checkpoint timeout', duration(config.aligned_checkpoint_timeout)],
    ['Persist Checkpoints Externally', outside.enabled ? `Enabled (${outside.delete_on_cancellation ? 'delete' : 'retain'} on cancellation)` : 'Disabled'],
    ['Tolerable Failed Checkpoints', config.tolerable_failed_checkpoints], ['Checkpoints With Finished Tasks', enabled(config.checkpoints_after_tasks_finish)],
    ['State Changelog', enabled(config.state_changelog_enabled)], ['Changelog Storage', config.changelog_storage ?? '–'], ['Changelog Periodic Materialization Interval', config.changelog_periodic_materialization_interval ?? '–'],
  ]);
}

const PHASES = [['pa', 'Start Delay', (part) => part.start_delay], ['pb', 'Alignment Duration', (part) => part.alignment.duration], ['pc', 'Sync Duration', (part) => part.checkpoint.sync], ['pd', 'Async Duration', (part) => part.checkpoint.async]];

export function checkpointPage({ detail, tasks, names }) {
  if (!detail) return html`<p class="banner">This checkpoint is not among the last ones any more. <a href="#/checkpoints">All checkpoints</a></p>`;
  const longest = Math.max(1, ...tasks.flatMap((task) => task.subtasks).map((part) => part.end_to_end_duration ?? 0));
  return html`
    <h2>Checkpoint ${detail.id}</h2>
    <div class="card">${facts([
      ['Status', html`${badge(detail.status)}`], ['Trigger Time', time(detail.trigger_timestamp)], ['End to End Duration', duration(detail.end_to_end_duration)],
      ['Path', html`<code>${detail.external_path ?? '–'}</code>`], ['Discarded', detail.discarded === undefined ? '–' : detail.discarded ? 'yes' : 'no'], ['Checkpoint Type', detail.checkpoint_type],
      ['Savepoint Format', detail.savepointFormat ?? '–'], ['Failure Message', detail.failure_message ?? '–'],
    ])}</div>
    <h2>Subtasks: where the time went</h2>
    <p class="legend">${PHASES.map(([colour, name]) => html`<span><i class=${colour}></i>${name}</span>`)}</p>
    ${tasks.map((task, index) => html`<br />${table(`${names[index]}: acknowledged ${percent(task.num_acknowledged_subtasks, task.num_subtasks)}, ${duration(task.end_to_end_duration)}`,
      ['ID', 'Acknowledged', 'Phases', 'End to End Duration', 'Checkpointed Data Size', 'Full Checkpoint Data Size', 'Sync Duration', 'Async Duration', 'Processed (persisted) Data', 'Alignment Duration', 'Start Delay', 'Unaligned Checkpoint'],
      task.subtasks.map((part) => part.status !== 'completed' ? html`<tr><td>${part.index}</td><td colspan="11" class="quiet">not acknowledged</td></tr>` : html`<tr>
        <td>${part.index}</td><td>${time(part.ack_timestamp)}</td><td><div class="phases" role="img" aria-label=${PHASES.map(([, name, of]) => `${name} ${duration(of(part))}`).join(', ')}>${PHASES.map(([colour, , of]) => html`<span class=${colour} style=${{ width: `${(100 * of(part)) / longest}%` }}></span>`)}</div></td>
        <td class="number">${duration(part.end_to_end_duration)}</td><td class="number">${bytes(part.checkpointed_size)}</td><td class="number">${bytes(part.state_size)}</td>
        <td class="number">${duration(part.checkpoint.sync)}</td><td class="number">${duration(part.checkpoint.async)}</td><td class="number">${bytes(part.alignment.processed)} (${bytes(part.alignment.persisted)})</td>
        <td class="number">${duration(part.alignment.duration)}</td><td class="number">${duration(part.start_delay)}</td><td>${part.unaligned_checkpoint ? 'yes' : 'no'}</td></tr>`))}`)}
    <p><a href="#/checkpoints">All checkpoints</a></p>`;
}
