"""The options with which a RocksDB is opened, from the settings of the job, and the memory that stores share."""

import threading
from weakref import WeakValueDictionary

from penstock.model.configuration import Configuration
from penstock.model.options import rocksdb_options as keys
from penstock.model.units import MIB
from penstock.state.rocksdb import bindings
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec

_ARENA_BLOCK_BYTES = MIB // 4
"""The default would be an eighth of a write buffer, which a state without rows takes too."""
_COMPRESSIONS = {
    "NO_COMPRESSION": bindings.DBCompressionType.none,
    "SNAPPY_COMPRESSION": bindings.DBCompressionType.snappy,
    "ZLIB_COMPRESSION": bindings.DBCompressionType.zlib,
    "BZLIB2_COMPRESSION": bindings.DBCompressionType.bz2,
    "LZ4_COMPRESSION": bindings.DBCompressionType.lz4,
    "LZ4HC_COMPRESSION": bindings.DBCompressionType.lz4hc,
    "ZSTD_COMPRESSION": bindings.DBCompressionType.zstd,
}
_COMPACTION_STYLES = {
    "LEVEL": bindings.DBCompactionStyle.level,
    "UNIVERSAL": bindings.DBCompactionStyle.universal,
}


class SharedMemory:
    """Block cache and write buffers of a process, which together stay below a bound."""

    def __init__(self, limit_bytes: int, write_buffer_ratio: float) -> None:
        self.cache = bindings.Cache(limit_bytes)
        self.buffers = bindings.WriteBufferManager.new_write_buffer_manager_with_cache(
            int(limit_bytes * write_buffer_ratio), allow_stall=False, cache=self.cache
        )


class StoreOptions:
    """Makes the options of one store's column families. Must live as long as the store."""

    def __init__(self, spec: RocksDBSpec) -> None:
        self._tuning = Configuration.from_dict(spec.tuning)
        self._memory_bytes = spec.memory_bytes
        self._predefined = spec.predefined_options
        self.memory = self._choose_memory()

    def _choose_memory(self) -> SharedMemory | None:
        """None if each state has its own cache and write buffers."""
        fixed = (keys.MEMORY_PER_TASKMANAGER, keys.MEMORY_PER_SLOT)
        if not self._tuning.get(keys.MANAGED_MEMORY) and not any(option.key in self._tuning for option in fixed):
            return None
        return shared_memory(self._memory_bytes, self._tuning.get(keys.WRITE_BUFFER_RATIO))

    def make(self) -> bindings.Options:
        """The options of the database and of one column family."""
        options = bindings.Options(raw_mode=True)
        options.create_if_missing(create_if_missing=True)
        options.create_missing_column_families(create_missing_cfs=True)
        options.set_stats_dump_period_sec(0)
        self._set_files(options)
        self._set_write_buffers(options)
        self._set_compaction(options)
        options.set_block_based_table_factory(self._blocks())
        return options

    def _set_files(self, options: bindings.Options) -> None:
        tuning = self._tuning
        open_files = tuning.get(keys.OPEN_FILES)
        default = 256 if self._predefined == keys.PREDEFINED.default else -1
        options.set_max_open_files(default if open_files is None else open_files)
        options.set_keep_log_file_num(tuning.get(keys.LOG_FILES))
        log_file_size = tuning.get(keys.LOG_FILE_SIZE)
        if log_file_size is not None:
            options.set_max_log_file_size(log_file_size)
        log_directory = tuning.get(keys.LOG_DIRECTORY)
        if log_directory is not None:
            options.set_db_log_dir(log_directory)

    def _set_write_buffers(self, options: bindings.Options) -> None:
        tuning = self._tuning
        if self.memory is not None:
            options.set_write_buffer_manager(self.memory.buffers)
        by_memory = max(MIB, min(64 * MIB, self._memory_bytes // 8))
        options.set_write_buffer_size(tuning.get(keys.WRITE_BUFFER_SIZE) or by_memory)
        options.set_arena_block_size(_ARENA_BLOCK_BYTES)
        count = tuning.get(keys.WRITE_BUFFERS)
        if count is not None:
            options.set_max_write_buffer_number(count)
        to_merge = tuning.get(keys.WRITE_BUFFERS_TO_MERGE)
        if to_merge is not None:
            options.set_min_write_buffer_number_to_merge(to_merge)

    def _set_compaction(self, options: bindings.Options) -> None:
        tuning = self._tuning
        options.set_max_background_jobs(tuning.get(keys.THREADS))
        options.set_compaction_style(_COMPACTION_STYLES[tuning.get(keys.COMPACTION_STYLE)]())
        options.set_level_compaction_dynamic_level_bytes(tuning.get(keys.DYNAMIC_LEVEL_SIZE))
        compressions = [_COMPRESSIONS[name]() for name in tuning.get(keys.COMPRESSION)]
        if len(compressions) == 1:
            options.set_compression_type(compressions[0])
        else:
            options.set_compression_per_level(compressions)
        file_size = tuning.get(keys.TARGET_FILE_SIZE)
        if file_size is not None:
            options.set_target_file_size_base(file_size)
        level_size = tuning.get(keys.LEVEL_SIZE)
        if level_size is not None:
            options.set_max_bytes_for_level_base(level_size)

    def _blocks(self) -> bindings.BlockBasedOptions:
        tuning = self._tuning
        blocks = bindings.BlockBasedOptions()
        own_cache = tuning.get(keys.BLOCK_CACHE_SIZE)
        blocks.set_block_cache(self.memory.cache if self.memory is not None else bindings.Cache(own_cache))
        default = keys.HIGH_MEMORY_BLOCK_SIZE if self._predefined == keys.HIGH_MEMORY else keys.DEFAULT_BLOCK_SIZE
        blocks.set_block_size(tuning.get(keys.BLOCK_SIZE) or default)
        metadata_size = tuning.get(keys.METADATA_BLOCK_SIZE)
        if metadata_size is not None:
            blocks.set_metadata_block_size(metadata_size)
        if tuning.get(keys.BLOOM_FILTER):
            bits_per_key = tuning.get(keys.BLOOM_FILTER_BITS)
            blocks.set_bloom_filter(bits_per_key, block_based=False)  # type: ignore[arg-type]  # the stub is wrong
        # Indexes and filters count against the bound of the memory too.
        blocks.set_cache_index_and_filter_blocks(True)
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
        if tuning.get(keys.PARTITIONED_INDEX_FILTERS):
            blocks.set_index_type(bindings.BlockBasedIndexType.two_level_index_search())
            blocks.set_partition_filters(True)
            blocks.set_pin_top_level_index_and_filter(True)
        return blocks


_memories: WeakValueDictionary[tuple[int, float], SharedMemory] = WeakValueDictionary()
"""Stores keep their memory alive: when the last store of a restore or of a job goes, so does its memory."""
_memories_lock = threading.Lock()


def shared_memory(limit_bytes: int, write_buffer_ratio: float = keys.WRITE_BUFFER_RATIO.default) -> SharedMemory:
    """The memory of all stores of this process with these bounds."""
    with _memories_lock:
        memory = _memories.get((limit_bytes, write_buffer_ratio))
        if memory is None:
            memory = SharedMemory(limit_bytes, write_buffer_ratio)
            _memories[limit_bytes, write_buffer_ratio] = memory
        return memory
