"""Keys of Flink that are accepted and have no effect here, each with the reason.

A family covers all keys with a prefix, so that a configuration of Flink can be used as it is. There is none for
`execution.`, `state.backend.`, `pipeline.`, `restart-strategy.` and `penstock.`: there, a misspelt key is an error.
"""

from penstock.model.option import KeyFamily, Option
from penstock.model.option_types import OptionalText

_BEAM = "functions run in TaskManager processes, not in Beam workers"
_STATE_CACHE = "state is read directly, without a cache in front of a JVM"
_BATCH = "batch mode needs no settings: Spark exchanges the rows, and each subtask sorts its own"
_BUFFERS = "records travel with their epoch, not in network buffers; see `penstock.epoch.interval`"
_TASKS = "Spark schedules and runs the tasks"
_SCHEDULER = _TASKS + "; `penstock.autoscale` lets a job rescale itself"
_CLUSTER = "Spark is the cluster: use the keys `spark.*`"
_SESSION = "there is no session cluster: each job has a driver of its own"
_JAVA_TYPES = "records and state are Arrow data, not Java objects"
_JARS = "set `spark.jars` or `spark.jars.packages`"
_MERGING = "each snapshot file is stored on its own"
_SPOOL = "each subtask stores the records of an unaligned checkpoint in a file of its own"
_CHANGELOG = "there is no changelog: checkpoints of both backends are incremental already"
_STATE_LATENCY = "the latency of state access is not measured"
_CLEANUP = "the job itself deletes files that no checkpoint needs"
_STANDBY = (
    "a standby needs no ZooKeeper and no Kubernetes: start the job with `penstock run --ha DIR` and the standby with "
    "`penstock standby --ha DIR`; `penstock.ha.timeout` is its one setting"
)
_CONTROL_LIMITS = "the limits of the control server and of its client are fixed"
_SUBMISSION = "`penstock run` starts the job in its own process; `-d` runs it in the background"
_FRAME_SIZE = "a message between two processes may have 64 mb; the limit is fixed"
_QUERIES = "queries need no server of their own: the control server answers them, for states that the program publishes"
_RECORDS_IN_FLIGHT = "a restored job processes the records in flight first, and takes checkpoints meanwhile"
_FILE_SYSTEMS = "file systems are configured by their environment variables"

CLOSURE_CLEANER = "pipeline.closure-cleaner-level"
LATENCY_INTERVAL = "metrics.latency.interval"
CANCELLATION_INTERVAL = "task.cancellation.interval"
CANCELLATION_TIMEOUT = "task.cancellation.timeout"
FORCE_KRYO = "pipeline.force-kryo"
FORCE_AVRO = "pipeline.force-avro"
GENERIC_TYPES = "pipeline.generic-types"
BUFFER_TIMEOUTS = ("execution.buffer-timeout.interval", "execution.buffer-timeout")
"""Keys that `ExecutionConfig` and the environment have methods for."""


def _without_effect(why: str, *keys: str) -> tuple[Option[str | None], ...]:
    return tuple(Option(key, OptionalText(), None, "", no_effect=why) for key in keys)


OPTIONS: tuple[Option[str | None], ...] = (
    *_without_effect(
        "checkpoints continue when some sources have ended, and the last one commits everything",
        "execution.checkpointing.checkpoints-after-tasks-finish",
        "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
    ),
    *_without_effect(
        "the interval is the same whether sources have a backlog or not",
        "execution.checkpointing.interval-during-backlog",
    ),
    *_without_effect(
        "the files of expired checkpoints are deleted one after the other",
        "execution.checkpointing.cleaner.parallel-mode",
        "state.checkpoint.cleaner.parallel-mode",
    ),
    *_without_effect(
        _MERGING,
        "execution.checkpointing.file-merging.enabled",
        "state.checkpoints.file-merging.enabled",
        "state.checkpoints.file-merging.across-checkpoint-boundary",
        "state.checkpoints.file-merging.max-file-size",
        "state.checkpoints.file-merging.max-space-amplification",
        "state.checkpoints.file-merging.max-subtasks-per-file",
        "state.checkpoints.file-merging.pool-blocking",
        "execution.checkpointing.file-merging.across-checkpoint-boundary",
        "execution.checkpointing.file-merging.max-file-size",
        "execution.checkpointing.file-merging.max-space-amplification",
        "execution.checkpointing.file-merging.max-subtasks-per-file",
        "execution.checkpointing.file-merging.pool-blocking",
    ),
    *_without_effect(_SPOOL, "execution.checkpointing.unaligned.max-subtasks-per-channel-state-file"),
    *_without_effect(
        "timers fire at the end of an epoch, before the barrier",
        "execution.checkpointing.unaligned.interruptible-timers.enabled",
    ),
    *_without_effect(
        "a checkpoint is restored with the records that it holds",
        "execution.state-recovery.without-channel-state.checkpoint-id",
        "execution.checkpointing.recover-without-channel-state.checkpoint-id",
        "execution.checkpointing.id-of-ignored-in-flight-data",
    ),
    *_without_effect(
        _RECORDS_IN_FLIGHT,
        "execution.checkpointing.during-recovery.enabled",
        "execution.checkpointing.unaligned.during-recovery.enabled",
        "execution.checkpointing.unaligned.recover-output-on-downstream.enabled",
        "pipeline.sources.pause-until-first-checkpoint",
    ),
    *_without_effect(
        "a job always continues from the newest checkpoint that can be read",
        "execution.checkpointing.prefer-checkpoint-for-recovery",
    ),
    *_without_effect(
        "a job restarts as a whole",
        "execution.checkpointing.approximate-local-recovery",
        "execution.state-recovery.approximate-local-recovery",
    ),
    *_without_effect("snapshots are always written asynchronously", "state.backend.async"),
    *_without_effect(
        "functions access state synchronously",
        "execution.async-state.buffer-size",
        "execution.async-state.buffer-timeout",
        "execution.async-state.in-flight-records-limit",
        "execution.async-state.active-buffer-size",
        "execution.async-state.active-buffer-timeout",
        "execution.async-state.total-buffer-size",
    ),
    *_without_effect(_BUFFERS, *BUFFER_TIMEOUTS, "execution.buffer-timeout.enabled"),
    *_without_effect(
        _BATCH,
        "execution.batch-shuffle-mode",
        "execution.sorted-inputs.enabled",
        "execution.sorted-inputs.memory",
        "execution.batch-state-backend.enabled",
        "execution.sort.partition.memory",
        "execution.sort.keyed.partition.memory",
        "execution.sort-partition.memory",
        "execution.sort-keyed-partition.memory",
    ),
    *_without_effect(
        _SUBMISSION,
        "execution.target",
        "execution.attached",
        "execution.shutdown-on-attached-exit",
        "execution.shutdown-on-application-finish",
        "execution.submit-failed-job-on-application-error",
        "execution.program-config.enabled",
        "execution.program-config.wildcards",
        "execution.terminate-application-on-any-job-terminated-exceptionally",
        "execution.allow-client-job-configurations",
    ),
    *_without_effect("listeners are Java classes", "execution.job-listeners", "execution.job-status-changed-listeners"),
    *_without_effect(_JARS, "pipeline.jars", "pipeline.classpaths"),
    *_without_effect("read the file in `open()`", "pipeline.cached-files"),
    *_without_effect(
        _JAVA_TYPES,
        FORCE_AVRO,
        FORCE_KRYO,
        "pipeline.force-kryo-avro",
        GENERIC_TYPES,
        CLOSURE_CLEANER,
        "pipeline.serialization-config",
        "pipeline.default-kryo-serializers",
        "pipeline.registered-kryo-types",
        "pipeline.registered-pojo-types",
        "pipeline.auto-type-registration",
    ),
    *_without_effect(
        "set the parallelism with `set_parallelism` on the operator", "pipeline.jobvertex-parallelism-overrides"
    ),
    *_without_effect(
        "all operators of a job have the same number of key groups",
        "pipeline.operator-chaining.chain-operators-with-different-max-parallelism",
    ),
    *_without_effect(
        "the plan shows each operator by its name",
        "pipeline.vertex-description-mode",
        "pipeline.vertex-name-include-index-prefix",
    ),
    *_without_effect(
        "all sources are read epoch by epoch, so their watermarks need no alignment",
        "pipeline.watermark-alignment.allow-unaligned-source-splits",
        "pipeline.watermark-alignment.buffer-size",
    ),
    *_without_effect(
        "event time comes from the watermark strategy of a stream, or from `event_time=`",
        "pipeline.time-characteristic",
    ),
    *_without_effect("set `restart-strategy.type`", "execution-retries.default", "execution-retries.delay"),
    *_without_effect(
        "functions are chained as `pipeline.operator-chaining.enabled` says", "python.operator-chaining.enabled"
    ),
    *_without_effect(
        "Spark decides what processes on executors inherit: `spark.executorEnv.*`", "python.systemenv.enabled"
    ),
    *_without_effect("set PYSPARK_PYTHON or `spark.pyspark.python`", "python.executable", "python.client.executable"),
    *_without_effect("call `env.add_python_file`", "python.files", "python.pythonpath"),
    *_without_effect("set `spark.archives`", "python.archives"),
    *_without_effect("install the packages where Spark's executors run Python", "python.requirements"),
    *_without_effect("set `penstock.batch.rows`", "python.fn-execution.arrow.batch.size"),
    *_without_effect(
        _STATE_CACHE,
        "python.state.cache-size",
        "python.map-state.read-cache-size",
        "python.map-state.write-cache-size",
        "python.map-state.iterate-response-batch-size",
    ),
    *_without_effect("metrics of functions are always on", "python.metric.enabled"),
    *_without_effect("there is no profiler of functions", "python.profile.enabled"),
    *_without_effect("set `spark.executor.cores`", "taskmanager.numberOfTaskSlots"),
    *_without_effect("a job restarts as a whole", "jobmanager.execution.failover-strategy"),
    *_without_effect(_TASKS, "task.cancellation-interval", "timerservice.exceptional.shutdown.timeout"),
    *_without_effect(_SCHEDULER, "scheduler-mode"),
    *_without_effect("`penstock status` shows all failed attempts of a job", "job-manager.max-attempts-history-size"),
    *_without_effect("functions are Python", "library-cache-manager.cleanup.interval"),
    *_without_effect(_STANDBY, "high-availability"),
    *_without_effect(_FRAME_SIZE, "akka.framesize", "pekko.framesize"),
    *_without_effect(_TASKS, "shuffle-service-factory.class"),
    *_without_effect(_CLEANUP, "cleanup-strategy"),
    *_without_effect(
        _CONTROL_LIMITS,
        "rest.await-leader-timeout",
        "rest.connection-timeout",
        "rest.idleness-timeout",
        "rest.retry.delay",
        "rest.retry.max-attempts",
        "rest.client.max-content-length",
        "rest.server.max-content-length",
        "rest.server.numThreads",
        "rest.server.thread-priority",
        "rest.async.store-duration",
        "rest.cache.checkpoint-statistics.size",
        "rest.cache.checkpoint-statistics.timeout",
        "rest.cache.execution-graph.timeout",
    ),
    *_without_effect("the paths of the control server are fixed", "rest.url-prefix", "rest.path"),
    *_without_effect(
        "the control server does not draw flame graphs",
        "rest.flamegraph.enabled",
        "rest.flamegraph.cleanup-interval",
        "rest.flamegraph.delay-between-samples",
        "rest.flamegraph.num-samples",
        "rest.flamegraph.refresh-interval",
        "rest.flamegraph.stack-depth",
    ),
    *_without_effect(
        "the control server does not profile processes",
        "rest.profiling.enabled",
        "rest.profiling.dir",
        "rest.profiling.duration-max",
        "rest.profiling.history-size",
    ),
)

FAMILIES = (
    KeyFamily(
        "python.logging.",
        no_effect="functions log with Python's `logging`: set levels there; `penstock logs` shows the lines",
    ),
    KeyFamily("python.", no_effect=_BEAM),
    KeyFamily("jobmanager.memory.", no_effect="set `spark.driver.memory`"),
    KeyFamily("jobmanager.adaptive-", no_effect=_SCHEDULER),
    KeyFamily("jobmanager.", no_effect="the JobManager is the Spark driver: use the keys `spark.driver.*`"),
    KeyFamily(
        "taskmanager.memory.",
        no_effect="TaskManagers are Python processes beside the executors' Java memory: set "
        "`spark.executor.memory` and `spark.executor.memoryOverhead`",
    ),
    KeyFamily("taskmanager.network.", no_effect=_BUFFERS),
    KeyFamily("taskmanager.", no_effect="Spark's executors start the TaskManagers: use the keys `spark.executor.*`"),
    KeyFamily("state.backend.forst.", no_effect="there is no ForSt backend: use `state.backend.type: rocksdb`"),
    KeyFamily("state.backend.changelog.", no_effect=_CHANGELOG),
    KeyFamily("state.changelog.", no_effect=_CHANGELOG),
    KeyFamily("dstl.", no_effect=_CHANGELOG),
    KeyFamily("state.backend.latency-track.", no_effect=_STATE_LATENCY),
    KeyFamily("state.latency-track.", no_effect=_STATE_LATENCY),
    KeyFamily("state.size-track.", no_effect="sizes of states are always counted, see `penstock status`"),
    KeyFamily("execution.batch.", no_effect=_BATCH),
    KeyFamily(
        "metrics.",
        no_effect="Prometheus reads `/metrics` of the control server; "
        "for OpenTelemetry, set `penstock.otel.endpoint` and install `penstock[otel]`",
    ),
    KeyFamily(
        "traces.",
        no_effect="checkpoints are traces of OpenTelemetry: set `penstock.otel.endpoint` and install `penstock[otel]`",
    ),
    KeyFamily("events.", no_effect="events are in `driver.log`; there are no event reporters"),
    KeyFamily("high-availability.", no_effect=_STANDBY),
    KeyFamily("recovery.", no_effect=_STANDBY),
    KeyFamily("zookeeper.", no_effect=_STANDBY),
    KeyFamily("job-result-store.", no_effect="the job log in the checkpoint folder says how a job ended"),
    KeyFamily("job-event.", no_effect="the job log in the checkpoint folder is all that a driver needs to continue"),
    KeyFamily("application-result-store.", no_effect="the job log in the checkpoint folder says how a job ended"),
    KeyFamily("completed-application-store.", no_effect=_SESSION),
    KeyFamily("cleanup-strategy.", no_effect=_CLEANUP),
    KeyFamily("pipeline.cep.sharedbuffer.cache.", no_effect="the events of patterns have no cache of their own"),
    KeyFamily("source.reader.", no_effect="Spark reads the sources"),
    KeyFamily("sink.committer.", no_effect="a failing commit is retried for `penstock.sink.commit-timeout`"),
    KeyFamily("collect-sink.", no_effect="records are collected through the driver, not through a socket"),
    KeyFamily("task.cancellation.", no_effect=_TASKS),
    KeyFamily("task.checkpoint.alignment.", no_effect="alignment buffers no records"),
    KeyFamily("pekko.", no_effect="the JobManager and the TaskManagers have a protocol of their own, not Pekko"),
    KeyFamily("akka.", no_effect="the JobManager and the TaskManagers have a protocol of their own, not Akka"),
    KeyFamily("heartbeat.", no_effect="set `penstock.taskmanager.timeout`"),
    KeyFamily("blob.", no_effect="there is no blob server: Spark distributes files"),
    KeyFamily("classloader.", no_effect="functions are Python"),
    KeyFamily("env.", no_effect="set `spark.driver.extraJavaOptions`, or environment variables"),
    KeyFamily("client.", no_effect=_SESSION),
    KeyFamily("deployment.", no_effect=_SESSION),
    KeyFamily("cluster.", no_effect=_CLUSTER),
    KeyFamily("process.", no_effect=_CLUSTER),
    KeyFamily("resourcemanager.", no_effect=_CLUSTER),
    KeyFamily("slotmanager.", no_effect=_CLUSTER),
    KeyFamily("slot.", no_effect=_TASKS),
    KeyFamily("slow-task-detector.", no_effect=_TASKS),
    KeyFamily("external-resource.", no_effect=_CLUSTER),
    KeyFamily("external-resources", no_effect=_CLUSTER),
    KeyFamily("kubernetes.", no_effect="use the keys `spark.kubernetes.*`"),
    KeyFamily("yarn.", no_effect="use the keys `spark.yarn.*`"),
    KeyFamily("flink.yarn.", no_effect="use the keys `spark.yarn.*`"),
    KeyFamily("mesos.", no_effect=_CLUSTER),
    KeyFamily("containerized.", no_effect="use the keys `spark.executorEnv.*` and `spark.yarn.appMasterEnv.*`"),
    KeyFamily("local.", no_effect=_CLUSTER),
    KeyFamily("minicluster.", no_effect="without a cluster, Spark runs in the driver: `spark.master: local[n]`"),
    KeyFamily("job.autoscaler.", no_effect="the autoscaler here has settings of its own: `penstock.autoscale`"),
    KeyFamily("jobstore.", no_effect=_SESSION),
    KeyFamily("historyserver.", no_effect="there is no history server: `penstock list -a` shows jobs that have ended"),
    KeyFamily("web.", no_effect="the control server serves the page of its job and has the keys `rest.*`"),
    KeyFamily("security.ssl.rest.", no_effect="set `penstock.rest.ssl.certificate` and `penstock.rest.ssl.key`"),
    KeyFamily("security.", no_effect="Spark and the checkpoint storage have security settings of their own"),
    KeyFamily("queryable-state.", no_effect=_QUERIES),
    KeyFamily("query.", no_effect=_QUERIES),
    KeyFamily("table.", no_effect="there is no Table API: use Spark SQL"),
    KeyFamily("materialized-table.", no_effect="there is no Table API: use Spark SQL"),
    KeyFamily("sql-gateway.", no_effect="there is no Table API: use Spark SQL"),
    KeyFamily("sql-client.", no_effect="there is no Table API: use Spark SQL"),
    KeyFamily("s3.", no_effect="credentials and endpoints come from the storage's environment variables"),
    KeyFamily("fs.", no_effect=_FILE_SYSTEMS),
    KeyFamily("gs.", no_effect=_FILE_SYSTEMS),
    KeyFamily("flink.hadoop.", no_effect=_FILE_SYSTEMS),
    KeyFamily("presto.s3.", no_effect=_FILE_SYSTEMS),
    KeyFamily("user.artifacts.", no_effect="Spark distributes files: use `spark.files`"),
    KeyFamily("compiler.", no_effect="there is no DataSet API"),
    KeyFamily("io.", no_effect="set TMPDIR for TaskManagers and `spark.local.dir` for Spark"),
    KeyFamily("jmx.", no_effect="set `spark.driver.extraJavaOptions`"),
    KeyFamily("mdc.", no_effect="log lines always carry job, attempt, epoch and subtask"),
    KeyFamily("plugin.", no_effect="plugins are Java archives"),
)
