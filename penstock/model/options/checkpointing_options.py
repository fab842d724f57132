"""Options of checkpoints and savepoints, and of the snapshot that a job starts from."""

from penstock.model.execution import CheckpointingMode, ExternalizedCheckpointRetention
from penstock.model.option import Option
from penstock.model.option_types import (
    Boolean,
    Folders,
    Integer,
    Member,
    Milliseconds,
    OptionalText,
    Size,
    Word,
)
from penstock.model.units import KIB, MIB

_CHECKPOINTING = "execution.checkpointing."
_RECOVERY = "execution.state-recovery."

DEFAULT_DIRECTORY = "penstock-checkpoints"
MAX_INLINE_THRESHOLD = MIB

INTERVAL: Option[int | None] = Option(
    _CHECKPOINTING + "interval",
    Milliseconds(least=10, too_small="Checkpoint interval must be larger than or equal to 10 ms"),
    None,
    "Time between the starts of two checkpoints. A job without an interval takes no checkpoints.",
)
MODE = Option(
    _CHECKPOINTING + "mode",
    Member(CheckpointingMode),
    CheckpointingMode.EXACTLY_ONCE,
    "`EXACTLY_ONCE`: sinks publish output together with the checkpoint that covers it. `AT_LEAST_ONCE`: sinks publish "
    "output at the end of each epoch, and a failure may repeat some of it.",
)
TIMEOUT = Option(
    _CHECKPOINTING + "timeout",
    Milliseconds(least=10, too_small="Checkpoint timeout must be larger than or equal to 10 ms"),
    600_000,
    "A checkpoint that is not complete after this time is aborted.",
)
MIN_PAUSE = Option(
    _CHECKPOINTING + "min-pause",
    Milliseconds(least=0, too_small="Pause value must be zero or positive"),
    0,
    "Minimum time between the end of a checkpoint and the start of the next one.",
)
MAX_CONCURRENT = Option(
    _CHECKPOINTING + "max-concurrent-checkpoints",
    Integer(least=1, too_small="The maximum number of concurrent attempts must be at least one"),
    1,
    "How many checkpoints may be in progress at the same time.",
)
NUM_RETAINED = Option(
    _CHECKPOINTING + "num-retained",
    Integer(least=1, too_small="Must retain at least one checkpoint"),
    1,
    "How many completed checkpoints are kept.",
    old_keys=("state.checkpoints.num-retained",),
)
TOLERABLE_FAILURES = Option(
    _CHECKPOINTING + "tolerable-failed-checkpoints",
    Integer(least=0, too_small="The tolerable failure checkpoint number must be non-negative"),
    0,
    "How many checkpoints in a row may fail before the job fails.",
)
RETENTION: Option[ExternalizedCheckpointRetention | None] = Option(
    _CHECKPOINTING + "externalized-checkpoint-retention",
    Member(ExternalizedCheckpointRetention),
    None,
    "Which checkpoints are kept when the job ends. Without a value, those of failed and suspended jobs are kept, so "
    "that `--resume` can continue them.",
)
DIRECTORY: Option[str | None] = Option(
    _CHECKPOINTING + "dir",
    OptionalText(),
    None,
    "The checkpoint folder: a path, or an address such as `s3://bucket/prefix`.",
    old_keys=("state.checkpoints.dir", "state.backend.fs.checkpointdir"),
    default_text=f"`{DEFAULT_DIRECTORY}` in the working folder",
)
SAVEPOINT_DIRECTORY: Option[str | None] = Option(
    _CHECKPOINTING + "savepoint-dir",
    OptionalText(),
    None,
    "The folder for savepoints that are requested without one.",
    old_keys=("state.savepoints.dir", "savepoints.state.backend.fs.dir"),
)
STORAGE = Option(
    _CHECKPOINTING + "storage",
    Word(("filesystem", "jobmanager")),
    "filesystem",
    "Where checkpoints are stored: in files, or in the memory of the JobManager.",
    old_keys=("state.checkpoint-storage",),
)
CREATE_SUBDIR = Option(
    _CHECKPOINTING + "create-subdir",
    Boolean(),
    True,
    "Whether each job has a folder of its own, named after its id, in the checkpoint folder.",
    old_keys=("state.checkpoints.create-subdir",),
)
INLINE_THRESHOLD = Option(
    _CHECKPOINTING + "data-inline-threshold",
    Size(most=MAX_INLINE_THRESHOLD),
    20 * KIB,
    "States up to this size are stored inside the checkpoint's manifest instead of in a file.",
    old_keys=("state.storage.fs.memory-threshold", "state.backend.fs.memory-threshold"),
)
WRITE_BUFFER_SIZE = Option(
    _CHECKPOINTING + "write-buffer-size",
    Size(),
    4 * KIB,
    "Size of the buffer in front of a checkpoint file.",
    old_keys=("state.storage.fs.write-buffer-size", "state.backend.fs.write-buffer-size"),
    no_effect="checkpoint files are written in one piece",
)
MAX_STATE_SIZE = Option(
    "penstock.jobmanager-storage.max-state-size",
    Size(
        least=1,
        most=32 * MIB,
        too_large="32 mb is the most that fits into a message to the JobManager and into a manifest; "
        "use FileSystemCheckpointStorage for large states",
    ),
    5 * MIB,
    "With `execution.checkpointing.storage: jobmanager`: the largest state that one operator may have in one subtask.",
)
INCREMENTAL = Option(
    _CHECKPOINTING + "incremental",
    Boolean(),
    True,
    "Whether a checkpoint stores only what changed since the previous one. Flink's default is `false`.",
    old_keys=("state.backend.incremental",),
)
SNAPSHOT_COMPRESSION: Option[bool | None] = Option(
    _CHECKPOINTING + "snapshot-compression",
    Boolean(),
    None,
    "Whether snapshots are compressed. RocksDB compresses its own files in any case.",
    default_text="tables of 16 KiB and more are compressed",
)
UNALIGNED = Option(
    _CHECKPOINTING + "unaligned.enabled",
    Boolean(),
    False,
    "Whether barriers may overtake records that have not been processed; such records are stored in the checkpoint. "
    "Needs mode `EXACTLY_ONCE` and one checkpoint at a time.",
    old_keys=(_CHECKPOINTING + "unaligned",),
)
FORCE_UNALIGNED = Option(
    _CHECKPOINTING + "unaligned.forced",
    Boolean(),
    False,
    "Whether `partition_custom` may be used with unaligned checkpoints.",
)
ALIGNED_TIMEOUT = Option(
    _CHECKPOINTING + "aligned-checkpoint-timeout",
    Milliseconds(),
    0,
    "With unaligned checkpoints: how long a barrier waits for the records before it, before it overtakes them.",
    old_keys=(_CHECKPOINTING + "alignment-timeout",),
)
MAX_SPOOL = Option(
    "penstock.unaligned.max-spool",
    Size(),
    1024 * MIB,
    "The most bytes of unprocessed records that a subtask stores in one unaligned checkpoint. If there are more, the "
    "checkpoint is aligned.",
)
LOCAL_BACKUP = Option(
    _CHECKPOINTING + "local-backup.enabled",
    Boolean(),
    False,
    "Whether each TaskManager keeps a second copy of its keyed state on local disk.",
    old_keys=("state.backend.local-recovery",),
)
LOCAL_BACKUP_DIRECTORIES: Option[tuple[str, ...]] = Option(
    _CHECKPOINTING + "local-backup.dirs",
    Folders(),
    (),
    "Where the local copies are stored.",
    old_keys=("taskmanager.state.local.root-dirs",),
    default_text="the temporary folder",
)
RECOVER_FROM_LOCAL = Option(
    _RECOVERY + "from-local",
    Boolean(),
    False,
    "Whether a restart reads the local copies first.",
    old_keys=("state.backend.local-recovery",),
)
RETAIN_FINISHED = Option(
    "penstock.checkpoint.retain-finished",
    Boolean(),
    False,
    "Whether the last checkpoint of a job that has finished is kept too, so that its state can be read.",
)
COMMIT_TIMEOUT = Option(
    "penstock.sink.commit-timeout",
    Milliseconds(),
    600_000,
    "How long a failing sink commit is retried before the attempt ends and recovery commits instead.",
)
RECOVERY_PATH: Option[str | None] = Option(
    _RECOVERY + "path",
    OptionalText(),
    None,
    "The savepoint or checkpoint that the job starts from. `penstock run -s` sets it.",
    old_keys=("execution.savepoint.path",),
)
IGNORE_UNCLAIMED_STATE = Option(
    _RECOVERY + "ignore-unclaimed-state",
    Boolean(),
    False,
    "Whether state that no operator of the program claims is dropped at the start. `penstock run -n` sets it.",
    old_keys=("execution.savepoint.ignore-unclaimed-state",),
)
CLAIM_MODE = Option(
    _RECOVERY + "claim-mode",
    Word(("claim", "no-claim", "legacy")),
    "no-claim",
    "Who owns the snapshot that the job starts from. `claim`: the job, which deletes it when it is no longer needed. "
    "`legacy` is treated as `no-claim`.",
    old_keys=("execution.savepoint-restore-mode",),
)
ALLOW_PICKLE = Option(
    "penstock.state.allow-pickle",
    Boolean(),
    False,
    "Whether a restore may read state that was stored as pickles.",
    no_effect="pickles are read only where the program says so, with `Types.PICKLED_BYTE_ARRAY()` or "
    "`migrate(…, from_pickle=True)`",
)
