"""Keys of Flink's own configuration are accepted: each has an effect, or one line that says why it has none."""

import pytest

from penstock.model.options.catalogue import OLD_KEYS, find_option

KEYS = """
akka.ask.timeout
blob.server.port
classloader.resolve-order
cleanup-strategy
cleanup-strategy.fixed-delay.attempts
client.timeout
cluster.evenly-spread-out-slots
collect-sink.batch-size.max
env.java.opts.all
execution.async-state.buffer-size
execution.attached
execution.batch.adaptive.auto-parallelism.enabled
execution.batch-shuffle-mode
execution.buffer-timeout.interval
execution.checkpointing.aligned-checkpoint-timeout
execution.checkpointing.checkpoints-after-tasks-finish
execution.checkpointing.cleaner.parallel-mode
execution.checkpointing.create-subdir
execution.checkpointing.data-inline-threshold
execution.checkpointing.dir
execution.checkpointing.externalized-checkpoint-retention
execution.checkpointing.file-merging.enabled
execution.checkpointing.file-merging.max-file-size
execution.checkpointing.incremental
execution.checkpointing.interval
execution.checkpointing.interval-during-backlog
execution.checkpointing.local-backup.dirs
execution.checkpointing.local-backup.enabled
execution.checkpointing.max-concurrent-checkpoints
execution.checkpointing.min-pause
execution.checkpointing.mode
execution.checkpointing.num-retained
execution.checkpointing.savepoint-dir
execution.checkpointing.snapshot-compression
execution.checkpointing.storage
execution.checkpointing.timeout
execution.checkpointing.tolerable-failed-checkpoints
execution.checkpointing.unaligned.enabled
execution.checkpointing.unaligned.forced
execution.checkpointing.unaligned.interruptible-timers.enabled
execution.checkpointing.unaligned.max-subtasks-per-channel-state-file
execution.checkpointing.write-buffer-size
execution.job-listeners
execution.runtime-mode
execution.savepoint-restore-mode
execution.savepoint.path
execution.shutdown-on-application-finish
execution.sorted-inputs.enabled
execution.state-recovery.claim-mode
execution.state-recovery.from-local
execution.state-recovery.ignore-unclaimed-state
execution.state-recovery.path
execution.state-recovery.without-channel-state.checkpoint-id
execution.target
external-resources
external-resource.gpu.amount
fs.default-scheme
heartbeat.timeout
high-availability.storageDir
high-availability.type
historyserver.archive.fs.dir
io.tmp.dirs
jobmanager.adaptive-scheduler.resource-wait-timeout
jobmanager.execution.failover-strategy
jobmanager.memory.process.size
jobmanager.rpc.address
job-result-store.delete-on-commit
kubernetes.cluster-id
metrics.reporters
parallelism.default
pekko.ask.timeout
pipeline.auto-generate-uids
pipeline.auto-watermark-interval
pipeline.cached-files
pipeline.classpaths
pipeline.closure-cleaner-level
pipeline.force-avro
pipeline.force-kryo
pipeline.generic-types
pipeline.global-job-parameters.mine
pipeline.jars
pipeline.jobvertex-parallelism-overrides
pipeline.max-parallelism
pipeline.name
pipeline.object-reuse
pipeline.operator-chaining.enabled
pipeline.serialization-config
pipeline.vertex-description-mode
pipeline.watermark-alignment.allow-unaligned-source-splits
process.working-dir
python.archives
python.client.executable
python.executable
python.execution-mode
python.files
python.fn-execution.arrow.batch.size
python.fn-execution.bundle.size
python.fn-execution.bundle.time
python.fn-execution.memory.managed
python.map-state.iterate-response-batch-size
python.metric.enabled
python.requirements
python.state.cache-size
python.systemenv.enabled
queryable-state.enable
resourcemanager.taskmanager-timeout
rest.address
rest.bind-address
rest.bind-port
rest.flamegraph.enabled
rest.port
rest.server.max-content-length
restart-strategy
restart-strategy.exponential-delay.attempts-before-reset-backoff
restart-strategy.exponential-delay.backoff-multiplier
restart-strategy.exponential-delay.initial-backoff
restart-strategy.exponential-delay.jitter-factor
restart-strategy.exponential-delay.max-backoff
restart-strategy.exponential-delay.reset-backoff-threshold
restart-strategy.failure-rate.delay
restart-strategy.failure-rate.failure-rate-interval
restart-strategy.failure-rate.max-failures-per-interval
restart-strategy.fixed-delay.attempts
restart-strategy.fixed-delay.delay
restart-strategy.type
s3.access-key
scheduler-mode
security.kerberos.login.keytab
security.ssl.rest.enabled
sink.committer.retries
slot.idle.timeout
slotmanager.number-of-slots.max
state.backend
state.backend.async
state.backend.changelog.enabled
state.backend.forst.local-dir
state.backend.incremental
state.backend.latency-track.keyed-state-enabled
state.backend.local-recovery
state.backend.type
state.changelog.enabled
state.checkpoint-storage
state.checkpoints.dir
state.checkpoints.num-retained
state.latency-track.keyed-state-enabled
state.savepoints.dir
state.storage.fs.memory-threshold
table.exec.mini-batch.enabled
task.cancellation.interval
taskmanager.memory.managed.fraction
taskmanager.memory.network.max
taskmanager.network.memory.buffers-per-channel
taskmanager.numberOfTaskSlots
taskmanager.state.local.root-dirs
traces.reporters
web.submit.enable
yarn.application.name
zookeeper.sasl.disable
""".split()
ROCKSDB_KEYS = """
block.blocksize block.cache-size block.metadata-blocksize bloom-filter.bits-per-key bloom-filter.block-based-mode
checkpoint.transfer.thread.num checkpoint.upload-jitter compaction.filter.periodic-compaction-time
compaction.filter.query-time-after-num-entries compaction.level.max-size-level-base
compaction.level.target-file-size-base compaction.level.use-dynamic-size compaction.style compression.per.level
files.open incremental-restore-async-compact-after-rescale localdir log.dir log.file-num log.level log.max-file-size
manual-compaction.max-auto-compactions manual-compaction.min-interval memory.fixed-per-slot memory.fixed-per-tm
memory.high-prio-pool-ratio memory.managed memory.partitioned-index-filters memory.write-buffer-ratio
metrics.block-cache-usage options-factory predefined-options rescaling.use-delete-files-in-range
restore-overlap-fraction-threshold thread.num timer-service.cache-size timer-service.factory use-bloom-filter
use-ingest-db-restore-mode write-batch-size writebuffer.count writebuffer.number-to-merge writebuffer.size
""".split()


@pytest.mark.parametrize("key", [*KEYS, *(f"state.backend.rocksdb.{name}" for name in ROCKSDB_KEYS)])
def test_a_key_of_flink_is_known(key: str) -> None:
    for new in OLD_KEYS.get(key, (key,)):
        option = find_option(new)
        assert option is not None and (option.text or option.no_effect)
