"""Keys of Flink's own configuration are accepted: each has an effect, or one line that says why it has none."""

from pathlib import Path

import pytest

from penstock.codec.socket_frames import MAX_FRAME_BYTES
from penstock.errors import ConfigurationError
from penstock.model.configuration import Configuration
from penstock.model.execution_config import global_job_parameters
from penstock.model.options import pipeline_options
from penstock.model.options.catalogue import (
    OLD_KEYS,
    check_setting,
    find_option,
    settings_without_effect,
    with_new_names,
)
from penstock.model.quantities import format_size_bytes

KEYS = """
akka.ask.timeout akka.framesize akka.log.lifecycle.events blob.fetch.retries blob.server.port blob.storage.directory
classloader.check-leaked-classloader classloader.parent-first-patterns.default classloader.resolve-order
cleanup-strategy cleanup-strategy.exponential-delay.max-backoff cleanup-strategy.fixed-delay.attempts
client.heartbeat.interval client.retry-period client.timeout cluster.evenly-spread-out-slots cluster.id
cluster.intercept-user-system-exit cluster.io-pool.size cluster.management.node-quarantine.enabled
cluster.processes.halt-on-fatal-error cluster.thread-dump.stacktrace-max-depth cluster.uncaught-exception-handling
collect-sink.batch-size.max collect-sink.socket-timeout compiler.delimited-informat.max-line-samples
containerized.heap-cutoff-ratio containerized.master.env.LD_LIBRARY_PATH deployment.check-interval dstl.dfs.base-path
env.hadoop.conf.dir env.java.opts.all env.log.level events.reporters execution-retries.default
execution.allow-client-job-configurations execution.async-state.buffer-size execution.async-state.buffer-timeout
execution.async-state.in-flight-records-limit execution.attached execution.batch-shuffle-mode
execution.batch-state-backend.enabled execution.batch.adaptive.auto-parallelism.enabled
execution.batch.job-recovery.enabled execution.batch.speculative.enabled execution.buffer-timeout
execution.buffer-timeout.enabled execution.buffer-timeout.interval execution.checkpointing.aligned-checkpoint-timeout
execution.checkpointing.alignment-timeout execution.checkpointing.approximate-local-recovery
execution.checkpointing.checkpoints-after-tasks-finish execution.checkpointing.checkpoints-after-tasks-finish.enabled
execution.checkpointing.cleaner.parallel-mode execution.checkpointing.create-subdir
execution.checkpointing.data-inline-threshold execution.checkpointing.dir
execution.checkpointing.during-recovery.enabled execution.checkpointing.externalized-checkpoint-retention
execution.checkpointing.file-merging.across-checkpoint-boundary execution.checkpointing.file-merging.enabled
execution.checkpointing.file-merging.max-file-size execution.checkpointing.file-merging.max-space-amplification
execution.checkpointing.file-merging.max-subtasks-per-file execution.checkpointing.file-merging.pool-blocking
execution.checkpointing.id-of-ignored-in-flight-data execution.checkpointing.incremental
execution.checkpointing.interval execution.checkpointing.interval-during-backlog
execution.checkpointing.local-backup.dirs execution.checkpointing.local-backup.enabled
execution.checkpointing.max-concurrent-checkpoints execution.checkpointing.min-pause execution.checkpointing.mode
execution.checkpointing.num-retained execution.checkpointing.prefer-checkpoint-for-recovery
execution.checkpointing.recover-without-channel-state.checkpoint-id execution.checkpointing.savepoint-dir
execution.checkpointing.snapshot-compression execution.checkpointing.storage execution.checkpointing.timeout
execution.checkpointing.tolerable-failed-checkpoints execution.checkpointing.unaligned
execution.checkpointing.unaligned.during-recovery.enabled execution.checkpointing.unaligned.enabled
execution.checkpointing.unaligned.forced execution.checkpointing.unaligned.interruptible-timers.enabled
execution.checkpointing.unaligned.max-subtasks-per-channel-state-file
execution.checkpointing.unaligned.recover-output-on-downstream.enabled execution.checkpointing.write-buffer-size
execution.job-listeners execution.job-status-changed-listeners execution.program-config.enabled
execution.program-config.wildcards execution.runtime-mode execution.savepoint-restore-mode
execution.savepoint.ignore-unclaimed-state execution.savepoint.path execution.shutdown-on-application-finish
execution.shutdown-on-attached-exit execution.sort-keyed-partition.memory execution.sort-partition.memory
execution.sort.keyed.partition.memory execution.sort.partition.memory execution.sorted-inputs.enabled
execution.sorted-inputs.memory execution.state-recovery.claim-mode execution.state-recovery.from-local
execution.state-recovery.ignore-unclaimed-state execution.state-recovery.path
execution.state-recovery.without-channel-state.checkpoint-id execution.submit-failed-job-on-application-error
execution.target execution.terminate-application-on-any-job-terminated-exceptionally external-resource.gpu.amount
external-resources flink.hadoop.dfs.replication fs.allowed-fallback-filesystems fs.default-scheme fs.hdfs.hadoopconf
fs.overwrite-files fs.s3a.endpoint gs.writer.chunk.size heartbeat.interval heartbeat.rpc-failure-threshold
heartbeat.timeout high-availability high-availability.cluster-id high-availability.jobmanager.port
high-availability.kubernetes.leader-election.lease-duration high-availability.storageDir high-availability.type
high-availability.use-old-ha-services high-availability.zookeeper.path.root high-availability.zookeeper.quorum
historyserver.archive.fs.dir historyserver.log.jobmanager.url-pattern historyserver.web.port io.tmp.dirs
jmx.server.port job-event.store.write-buffer.size job-result-store.delete-on-commit job-result-store.storage-path
job.autoscaler.enabled jobmanager.adaptive-scheduler.resource-wait-timeout jobmanager.archive.fs.dir
jobmanager.bind-host jobmanager.execution.attempts-history-size jobmanager.execution.failover-strategy
jobmanager.future-pool.size jobmanager.heap.size jobmanager.memory.flink.size jobmanager.memory.process.size
jobmanager.partition.release-during-job-execution jobmanager.retrieve-taskmanager-hostname jobmanager.rpc.address
jobmanager.rpc.port jobmanager.scheduler jobmanager.web.port jobstore.cache-size jobstore.max-capacity
kubernetes.cluster-id kubernetes.container.image.ref kubernetes.jobmanager.cpu.amount
kubernetes.operator.job.upgrade.last-state.max.allowed.checkpoint.age local.number-resourcemanager
mdc.environment-variables mesos.master metrics.latency.interval metrics.reporter.prom.factory.class metrics.reporters
metrics.scope.jm minicluster.number-of-taskmanagers parallelism.default pekko.ask.timeout pekko.framesize
pekko.ssl.enabled pekko.tcp.timeout pipeline.auto-generate-uids pipeline.auto-type-registration
pipeline.auto-watermark-interval pipeline.cached-files pipeline.classpaths pipeline.closure-cleaner-level
pipeline.default-kryo-serializers pipeline.force-avro pipeline.force-kryo pipeline.force-kryo-avro
pipeline.generic-types pipeline.global-job-parameters pipeline.global-job-parameters.mine pipeline.jars
pipeline.jobvertex-parallelism-overrides pipeline.max-parallelism pipeline.name pipeline.object-reuse
pipeline.operator-chaining pipeline.operator-chaining.chain-operators-with-different-max-parallelism
pipeline.operator-chaining.enabled pipeline.registered-kryo-types pipeline.registered-pojo-types
pipeline.serialization-config pipeline.sources.pause-until-first-checkpoint pipeline.time-characteristic
pipeline.vertex-description-mode pipeline.vertex-name-include-index-prefix
pipeline.watermark-alignment.allow-unaligned-source-splits plugin.classloader.parent-first-patterns.default
presto.s3.endpoint process.jobmanager.working-dir process.working-dir python.archives python.client.executable
python.executable python.execution-mode python.files python.fn-execution.arrow.batch.size
python.fn-execution.buffer.memory.size python.fn-execution.bundle.size python.fn-execution.bundle.time
python.fn-execution.memory.managed python.logging.level python.map-state.iterate-response-batch-size
python.map-state.read-cache-size python.map-state.write-cache-size python.metric.enabled
python.operator-chaining.enabled python.profile.enabled python.pythonpath python.requirements python.state.cache-size
python.systemenv.enabled query.server.port queryable-state.enable queryable-state.proxy.ports recovery.mode
recovery.zookeeper.quorum resourcemanager.job.timeout resourcemanager.rpc.port
resourcemanager.start-worker.max-failure-rate resourcemanager.taskmanager-timeout rest.address
rest.async.store-duration rest.await-leader-timeout rest.bind-address rest.bind-port
rest.cache.checkpoint-statistics.size rest.cache.checkpoint-statistics.timeout rest.cache.execution-graph.timeout
rest.client.max-content-length rest.connection-timeout rest.flamegraph.cleanup-interval
rest.flamegraph.delay-between-samples rest.flamegraph.enabled rest.flamegraph.num-samples
rest.flamegraph.refresh-interval rest.flamegraph.stack-depth rest.idleness-timeout rest.path rest.port
rest.profiling.dir rest.profiling.duration-max rest.profiling.enabled rest.profiling.history-size rest.retry.delay
rest.retry.max-attempts rest.server.max-content-length rest.server.numThreads rest.server.thread-priority
rest.url-prefix restart-strategy restart-strategy.exponential-delay.attempts-before-reset-backoff
restart-strategy.exponential-delay.backoff-multiplier restart-strategy.exponential-delay.initial-backoff
restart-strategy.exponential-delay.jitter-factor restart-strategy.exponential-delay.max-backoff
restart-strategy.exponential-delay.reset-backoff-threshold restart-strategy.failure-rate.delay
restart-strategy.failure-rate.failure-rate-interval restart-strategy.failure-rate.max-failures-per-interval
restart-strategy.fixed-delay.attempts restart-strategy.fixed-delay.delay restart-strategy.type s3.access-key
savepoints.state.backend.fs.dir scheduler-mode security.context.factory.classes security.delegation.tokens.enabled
security.kerberos.login.keytab security.module.factory.classes security.ssl.internal.enabled security.ssl.rest.enabled
shuffle-service-factory.class sink.committer.retries slot.idle.timeout slot.request.timeout
slotmanager.max-total-resource.cpu slotmanager.number-of-slots.max slow-task-detector.check-interval
sql-client.verbose sql-gateway.session.idle-timeout state.backend state.backend.async state.backend.changelog.enabled
state.backend.forst.local-dir state.backend.fs.checkpointdir state.backend.fs.memory-threshold
state.backend.fs.write-buffer-size state.backend.incremental state.backend.latency-track.keyed-state-enabled
state.backend.local-recovery state.backend.type state.changelog.enabled state.changelog.preemptive-persist-threshold
state.checkpoint-storage state.checkpoint.cleaner.parallel-mode state.checkpoints.create-subdir state.checkpoints.dir
state.checkpoints.file-merging.enabled state.checkpoints.file-merging.max-file-size state.checkpoints.num-retained
state.latency-track.keyed-state-enabled state.savepoints.dir state.size-track.keyed-state-enabled
state.storage.fs.memory-threshold state.storage.fs.write-buffer-size table.exec.mini-batch.enabled
table.exec.state.ttl task.cancellation.interval task.cancellation.timeout task.checkpoint.alignment.max-size
taskmanager.bind-host taskmanager.data.port taskmanager.heap.size taskmanager.host taskmanager.load-balance.mode
taskmanager.memory.managed.fraction taskmanager.memory.network.max taskmanager.memory.process.size
taskmanager.network.bind-policy taskmanager.network.memory.buffers-per-channel taskmanager.numberOfTaskSlots
taskmanager.registration.timeout taskmanager.runtime.hashjoin-bloom-filters taskmanager.slot.timeout
taskmanager.state.local.root-dirs traces.reporter.otel.factory.class traces.reporters user.artifacts.base-dir
web.cancel.enable web.submit.enable web.timeout web.upload.dir yarn.application-attempts yarn.application.name
zookeeper.sasl.disable zookeeper.sasl.service-name
""".split()
ROCKSDB_KEYS = """
block.blocksize block.cache-size block.metadata-blocksize bloom-filter.bits-per-key bloom-filter.block-based-mode
checkpoint.transfer.thread.num checkpoint.upload-jitter compaction.filter.periodic-compaction-time
compaction.filter.query-time-after-num-entries compaction.level.max-size-level-base
compaction.level.target-file-size-base compaction.level.use-dynamic-size compaction.style compression.per.level
checkpointdir files.open incremental-restore-async-compact-after-rescale localdir log.dir log.file-num log.level
log.max-file-size manual-compaction.max-auto-compactions manual-compaction.min-interval memory.fixed-per-slot
memory.fixed-per-tm
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


def test_every_key_that_flink_2_3_declares_is_known() -> None:
    """The file lists the `ConfigOption`s of Flink's classes with their old keys; options of SQL tables are left out."""
    keys = (Path(__file__).parent / "flink_keys.txt").read_text(encoding="utf-8").split()
    assert len(keys) > 900
    assert [key for key in keys if any(find_option(new) is None for new in OLD_KEYS.get(key, (key,)))] == []


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (
            "high-availability.type",
            "a standby needs no ZooKeeper and no Kubernetes: start the job with penstock run --ha DIR",
        ),
        ("high-availability", "a standby needs no ZooKeeper"),
        ("akka.framesize", "a message between two processes may have 64 mb; the limit is fixed"),
        (
            "queryable-state.enable",
            "queries need no server of their own: the control server answers them, for states that",
        ),
        ("state.backend.async", "snapshots are always written asynchronously"),
        ("python.logging.level", "functions log with Python's logging: set levels there; penstock logs shows"),
        ("execution.buffer-timeout", "records travel with their epoch, not in network buffers"),
        ("python.fn-execution.bundle.size", "functions run in TaskManager processes, not in Beam workers"),
    ],
)
def test_a_key_without_effect_gives_one_line_with_the_reason(key: str, reason: str) -> None:
    (line,) = settings_without_effect(Configuration.from_dict({key: "1"}))
    assert line.startswith(f"{key} has no effect here: {reason}")


def test_the_limit_of_messages_is_the_one_that_the_reason_names() -> None:
    assert format_size_bytes(MAX_FRAME_BYTES) == "64 mb"


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("execution.checkpointing.unaligned.enable", "execution.checkpointing.unaligned.enabled"),
        ("pipeline.operator-chaning", "pipeline.operator-chaining"),
        ("pipeline.object-reuze", "pipeline.object-reuse"),
        ("state.backend.rocksdb.local-dir", "state.backend.rocksdb.localdir"),
        ("state.checkpoint.dir", "state.checkpoints.dir"),
        ("rest.prot", "rest.port"),
        ("restart-strategy.fixed-delay.attemps", "restart-strategy.fixed-delay.attempts"),
        ("paralellism.default", "parallelism.default"),
    ],
)
def test_a_misspelt_key_is_an_error_that_names_the_right_one(key: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=f"did you mean '{meant}'"):
        check_setting(key, "1", "the program")


def test_the_older_key_of_chaining_has_its_effect() -> None:
    settings = Configuration.from_dict(with_new_names({"pipeline.operator-chaining": "false"}))
    assert settings.get(pipeline_options.CHAINING) is False


def test_job_parameters_can_be_one_setting() -> None:
    prefix = "pipeline.global-job-parameters"
    settings = Configuration.from_dict({prefix: "unit:km,limit:5", f"{prefix}.limit": "7"})
    assert global_job_parameters(settings) == {"unit": "km", "limit": "7"}
