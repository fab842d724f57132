"""Options of the RocksDB backend. Those without an effect say why; `penstock.state.rocksdb` applies the others."""

from penstock.model.configuration import Configuration
from penstock.model.option import KeyFamily, Option
from penstock.model.option_types import Boolean, Folders, Integer, Number, OptionalText, Size, Word, Words
from penstock.model.units import KIB, MIB

PREFIX = "state.backend.rocksdb."

DEFAULT_MEMORY_BYTES = 256 * MIB
DEFAULT_BLOCK_SIZE = 16 * KIB
HIGH_MEMORY = "SPINNING_DISK_OPTIMIZED_HIGH_MEM"
HIGH_MEMORY_BLOCK_SIZE = 128 * KIB

_BY_MEMORY = "an eighth of the memory, 1 mb to 64 mb"
_ROCKSDB = "RocksDB's own"

DIRECTORIES: Option[tuple[str, ...]] = Option(
    PREFIX + "localdir",
    Folders(),
    (),
    "Where RocksDB keeps its files. Several folders are used in turn.",
    old_keys=(PREFIX + "checkpointdir",),
    default_text="the temporary folder",
)
PREDEFINED = Option(
    PREFIX + "predefined-options",
    Word(("DEFAULT", "SPINNING_DISK_OPTIMIZED", HIGH_MEMORY, "FLASH_SSD_OPTIMIZED")),
    "DEFAULT",
    "Settings that suit a kind of disk. The options below win over them.",
)
TRANSFER_THREADS = Option(
    PREFIX + "checkpoint.transfer.thread.num",
    Integer(),
    4,
    "How many files are uploaded or downloaded at the same time. Less than 1 is treated as 1.",
)
MEMORY_PER_TASKMANAGER: Option[int | None] = Option(
    PREFIX + "memory.fixed-per-tm",
    Size(least=1),
    None,
    "Memory for the block cache and the write buffers of one TaskManager.",
    default_text=f"`{Size().format(DEFAULT_MEMORY_BYTES)}`",
)
MEMORY_PER_SLOT: Option[int | None] = Option(
    PREFIX + "memory.fixed-per-slot",
    Size(least=1),
    None,
    "The same as `memory.fixed-per-tm`, because a TaskManager has one slot.",
)
MANAGED_MEMORY = Option(
    PREFIX + "memory.managed",
    Boolean(),
    True,
    "Whether all states of a TaskManager share one bounded memory. If `false` and no `memory.fixed-per-…` is set, each "
    "state has a block cache and write buffers of its own, and nothing bounds their sum.",
)
WRITE_BUFFER_RATIO = Option(
    PREFIX + "memory.write-buffer-ratio",
    Number(least=0.01, most=1),
    0.5,
    "The part of the shared memory that write buffers may take.",
)
PARTITIONED_INDEX_FILTERS = Option(
    PREFIX + "memory.partitioned-index-filters",
    Boolean(),
    False,
    "Whether the index and the filter of a file are split into blocks that are loaded one by one.",
)
THREADS = Option(
    PREFIX + "thread.num", Integer(least=1), 2, "How many flushes and compactions run at the same time in one store."
)
OPEN_FILES: Option[int | None] = Option(
    PREFIX + "files.open",
    Integer(least=-1),
    None,
    "How many files a store keeps open. -1: all of them.",
    default_text="`256` with the predefined options `DEFAULT`, or else `-1`",
)
LOG_FILE_SIZE: Option[int | None] = Option(
    PREFIX + "log.max-file-size",
    Size(),
    None,
    "RocksDB starts a new log file at this size. 0: it never does.",
    default_text=_ROCKSDB,
)
LOG_FILES = Option(PREFIX + "log.file-num", Integer(least=1), 1, "How many log files of RocksDB are kept.")
LOG_DIRECTORY: Option[str | None] = Option(
    PREFIX + "log.dir",
    OptionalText(),
    None,
    "The folder of RocksDB's log files, as an absolute path.",
    default_text="the folder of the store, which is removed with it",
)
COMPACTION_STYLE = Option(
    PREFIX + "compaction.style",
    Word(("LEVEL", "UNIVERSAL")),
    "LEVEL",
    "How RocksDB merges its files. Flink's `FIFO` is refused because it deletes the oldest state, and `NONE` because "
    "RocksDB's Python bindings do not have it.",
)
DYNAMIC_LEVEL_SIZE = Option(
    PREFIX + "compaction.level.use-dynamic-size",
    Boolean(),
    True,
    "Whether RocksDB derives the sizes of the levels from the size of the last one. Flink's default is `false`.",
)
TARGET_FILE_SIZE: Option[int | None] = Option(
    PREFIX + "compaction.level.target-file-size-base",
    Size(least=1),
    None,
    "The size of files in the first level.",
    default_text=_ROCKSDB,
)
LEVEL_SIZE: Option[int | None] = Option(
    PREFIX + "compaction.level.max-size-level-base",
    Size(least=1),
    None,
    "The size of the first level.",
    default_text=_ROCKSDB,
)
COMPRESSION = Option(
    PREFIX + "compression.per.level",
    Words(
        (
            "NO_COMPRESSION",
            "SNAPPY_COMPRESSION",
            "ZLIB_COMPRESSION",
            "BZLIB2_COMPRESSION",
            "LZ4_COMPRESSION",
            "LZ4HC_COMPRESSION",
            "ZSTD_COMPRESSION",
        )
    ),
    ("LZ4_COMPRESSION",),
    "The compression of each level, separated by `;`. The last one holds for all further levels.",
)
WRITE_BUFFER_SIZE: Option[int | None] = Option(
    PREFIX + "writebuffer.size",
    Size(least=1),
    None,
    "How much a state collects in memory before it is written to a file.",
    default_text=_BY_MEMORY,
)
WRITE_BUFFERS: Option[int | None] = Option(
    PREFIX + "writebuffer.count",
    Integer(least=1),
    None,
    "How many write buffers a state may have.",
    default_text=_ROCKSDB,
)
WRITE_BUFFERS_TO_MERGE: Option[int | None] = Option(
    PREFIX + "writebuffer.number-to-merge",
    Integer(least=1),
    None,
    "How many write buffers are merged before they are written to a file; always less than `writebuffer.count`.",
    default_text=_ROCKSDB,
)
BLOCK_SIZE: Option[int | None] = Option(
    PREFIX + "block.blocksize",
    Size(least=1),
    None,
    "The size of a block of data in a file.",
    default_text=f"`{Size().format(DEFAULT_BLOCK_SIZE)}`; with the predefined options `{HIGH_MEMORY}` "
    f"`{Size().format(HIGH_MEMORY_BLOCK_SIZE)}`",
)
METADATA_BLOCK_SIZE: Option[int | None] = Option(
    PREFIX + "block.metadata-blocksize",
    Size(least=1),
    None,
    "The size of a block of a partitioned index or filter.",
    default_text=_ROCKSDB,
)
BLOCK_CACHE_SIZE = Option(
    PREFIX + "block.cache-size",
    Size(least=1),
    8 * MIB,
    "With `memory.managed: false`: the block cache of each state. Otherwise the cache is part of the shared memory.",
)
BLOOM_FILTER = Option(
    PREFIX + "use-bloom-filter",
    Boolean(),
    True,
    "Whether files have a Bloom filter, which saves reads for absent keys. Flink's default is `false`.",
)
BLOOM_FILTER_BITS = Option(
    PREFIX + "bloom-filter.bits-per-key", Number(least=1), 10.0, "The bits per key of the Bloom filter."
)

_RESTORE = "a restore opens the files of a snapshot or copies its rows; there is nothing to choose"
_FILTER = "expired state is removed by sweeps, see `penstock.state.ttl.sweep-entries`, not by a compaction filter"


OPTIONS_FACTORY = f"{PREFIX}options-factory"


def _without_effect(name: str, why: str) -> Option[str | None]:
    return Option(PREFIX + name, OptionalText(), None, "", no_effect=why)


WITHOUT_EFFECT = (
    _without_effect("memory.high-prio-pool-ratio", "RocksDB's Python bindings have no high-priority pool"),
    _without_effect("log.level", "RocksDB's Python bindings cannot set its log level"),
    _without_effect("bloom-filter.block-based-mode", "RocksDB has had no block-based filters since version 7"),
    _without_effect("write-batch-size", "the changes of an epoch are one write batch, however large"),
    _without_effect("options-factory", "it names a Java class, and state is not kept in the JVM here"),
    _without_effect("timer-service.factory", "the timers of this backend are always kept in RocksDB"),
    _without_effect("timer-service.cache-size", "the earliest timers of each key group are in memory, and no others"),
    _without_effect("checkpoint.upload-jitter", "files are uploaded as soon as the snapshot is taken"),
    _without_effect("restore-overlap-fraction-threshold", _RESTORE),
    _without_effect("use-ingest-db-restore-mode", _RESTORE),
    _without_effect("incremental-restore-async-compact-after-rescale", _RESTORE),
    _without_effect("rescaling.use-delete-files-in-range", _RESTORE),
    _without_effect("compaction.filter.query-time-after-num-entries", _FILTER),
    _without_effect("compaction.filter.periodic-compaction-time", _FILTER),
    _without_effect("ttl.compaction.filter.enabled", _FILTER),
)
MANUAL_COMPACTION = KeyFamily(
    PREFIX + "manual-compaction.", no_effect="small files are merged by RocksDB's own compaction only"
)
METRICS = KeyFamily(PREFIX + "metrics.", no_effect="RocksDB's own metrics are not exported")


def memory_bytes(configuration: Configuration) -> int:
    """The memory that all states of a TaskManager share."""
    fixed = configuration.get(MEMORY_PER_TASKMANAGER) or configuration.get(MEMORY_PER_SLOT)
    return fixed or DEFAULT_MEMORY_BYTES


def tuning(configuration: Configuration) -> dict[str, str]:
    """The settings that a store reads by itself when it is opened, for the process that opens it."""
    return {key: value for key, value in configuration.to_dict().items() if key.startswith(PREFIX)}
