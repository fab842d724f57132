"""Every option of RocksDB that its bindings can take arrives: RocksDB writes down what it was opened with."""

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigurationError
from penstock.jobmanager.settings.job_settings import backend_settings
from penstock.model.configuration import Configuration
from penstock.model.option import Option
from penstock.model.options import rocksdb_options
from penstock.model.options.catalogue import check_setting, options_in
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from penstock.state.rocksdb.store import Store, WriteBatch

PREFIX = rocksdb_options.PREFIX
MIB = 1024 * 1024


def open_store(folder: Path, **given: str) -> Store:
    """A store with one state, opened as a job with these settings opens it."""
    keys = {PREFIX + name.replace("__", ".").replace("_", "-"): value for name, value in given.items()}
    for key, value in keys.items():
        check_setting(key, value, "the test")
    settings = backend_settings(Configuration.from_dict({"state.backend.type": "rocksdb", **keys}))
    assert isinstance(settings.spec, RocksDBSpec)
    store = Store(folder / "db", settings.spec)
    store.family("v")
    return store


def written_options(folder: Path) -> dict[str, dict[str, str]]:
    """The newest list of options that RocksDB wrote, by section. The state's column family is `state-v`."""
    newest = max((folder / "db").glob("OPTIONS-*"), key=lambda path: path.name)
    sections: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in newest.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text.startswith("["):
            current = sections.setdefault(text.strip("[]"), {})
        elif "=" in text:
            name, _, value = text.partition("=")
            current[name] = value
    return sections


DATABASE, FAMILY, BLOCKS = "DBOptions", 'CFOptions "state-v"', 'TableOptions/BlockBasedTable "state-v"'
ARRIVALS = [
    ("thread.num", "3", DATABASE, "max_background_jobs", "2", "3"),
    ("files.open", "77", DATABASE, "max_open_files", "256", "77"),
    ("files.open", "-1", DATABASE, "max_open_files", "256", "-1"),
    ("log.max-file-size", "5 mb", DATABASE, "max_log_file_size", "0", str(5 * MIB)),
    ("log.file-num", "7", DATABASE, "keep_log_file_num", "1", "7"),
    ("compaction.style", "UNIVERSAL", FAMILY, "compaction_style", "kCompactionStyleLevel", "kCompactionStyleUniversal"),
    ("compaction.level.use-dynamic-size", "false", FAMILY, "level_compaction_dynamic_level_bytes", "true", "false"),
    ("compaction.level.target-file-size-base", "9 mb", FAMILY, "target_file_size_base", str(64 * MIB), str(9 * MIB)),
    (
        "compaction.level.max-size-level-base",
        "99 mb",
        FAMILY,
        "max_bytes_for_level_base",
        str(256 * MIB),
        str(99 * MIB),
    ),
    ("compression.per.level", "ZSTD_COMPRESSION", FAMILY, "compression", "kLZ4Compression", "kZSTD"),
    (
        "compression.per.level",
        "NO_COMPRESSION;SNAPPY_COMPRESSION;ZLIB_COMPRESSION;BZLIB2_COMPRESSION;LZ4_COMPRESSION;LZ4HC_COMPRESSION",
        FAMILY,
        "compression_per_level",
        "",
        "kNoCompression:kSnappyCompression:kZlibCompression:kBZip2Compression:kLZ4Compression:kLZ4HCCompression",
    ),
    ("writebuffer.size", "7 mb", FAMILY, "write_buffer_size", str(32 * MIB), str(7 * MIB)),
    ("writebuffer.count", "5", FAMILY, "max_write_buffer_number", "2", "5"),
    ("block.blocksize", "4 kb", BLOCKS, "block_size", "16384", "4096"),
    ("block.metadata-blocksize", "8 kb", BLOCKS, "metadata_block_size", "4096", "8192"),
    ("use-bloom-filter", "false", BLOCKS, "filter_policy", "bloomfilter", "nullptr"),
    ("memory.partitioned-index-filters", "true", BLOCKS, "index_type", "kBinarySearch", "kTwoLevelIndexSearch"),
    ("memory.partitioned-index-filters", "true", BLOCKS, "partition_filters", "false", "true"),
    ("predefined-options", "FLASH_SSD_OPTIMIZED", DATABASE, "max_open_files", "256", "-1"),
    ("predefined-options", "SPINNING_DISK_OPTIMIZED_HIGH_MEM", BLOCKS, "block_size", "16384", str(128 * 1024)),
]


@pytest.mark.parametrize(("name", "value", "section", "option", "default", "expected"), ARRIVALS)
def test_g11_an_option_arrives_in_rocksdb(
    name: str, value: str, section: str, option: str, default: str, expected: str, tmp_path: Path
) -> None:
    open_store(tmp_path / "plain").close(remove=False)
    assert written_options(tmp_path / "plain")[section].get(option, "") == default
    open_store(tmp_path / "set", **{name: value}).close(remove=False)
    assert written_options(tmp_path / "set")[section][option] == expected


def test_g11_the_number_of_write_buffers_to_merge_is_below_their_count(tmp_path: Path) -> None:
    open_store(tmp_path, writebuffer__count="5", writebuffer__number_to_merge="3").close(remove=False)
    assert written_options(tmp_path)[FAMILY]["min_write_buffer_number_to_merge"] == "3"


@pytest.mark.parametrize("style", ["FIFO", "NONE"])
def test_a_compaction_that_would_lose_state_is_refused(style: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{style!r} is not one of LEVEL, UNIVERSAL"):
        check_setting(rocksdb_options.COMPACTION_STYLE.key, style, "-D")


def test_g11_logs_go_to_their_folder(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    open_store(tmp_path, log__dir=str(tmp_path / "logs")).close()
    assert any("LOG" in path.name for path in (tmp_path / "logs").iterdir())


def test_g11_the_bits_of_the_bloom_filter_arrive(tmp_path: Path) -> None:
    def filter_bytes(bits: str) -> int:
        store = open_store(tmp_path / bits, bloom_filter__bits_per_key=bits)
        family, batch = store.family("v"), WriteBatch()
        for number in range(10_000):
            batch.put(family, b"%06d" % number, b"")
        store.write(batch)
        family.raw.flush()
        properties = family.raw.property_value("rocksdb.aggregated-table-properties")
        store.close()
        return int(dict(part.split("=") for part in properties.split("; ") if "=" in part)["filter block size"])

    assert 10_000 * 10 / 8 <= filter_bytes("10") < 10_000 * 12 / 8
    assert 10_000 * 20.5 / 8 <= filter_bytes("20.5") < 10_000 * 23 / 8


def test_g9_write_buffers_take_their_part_of_the_shared_memory(tmp_path: Path) -> None:
    store = open_store(tmp_path, memory__write_buffer_ratio="0.25", memory__fixed_per_tm="64 mb")
    memory = store.options.memory
    assert memory is not None and memory.buffers.get_buffer_size() == 16 * MIB
    store.close()


def test_g9_memory_that_is_not_managed_is_not_shared(tmp_path: Path) -> None:
    store = open_store(tmp_path / "own", memory__managed="false", block__cache_size="3 mb")
    assert store.options.memory is None
    assert store.family("v").raw.property_int_value("rocksdb.block-cache-capacity") == 3 * MIB
    store.close()
    store = open_store(tmp_path / "fixed", memory__managed="false", memory__fixed_per_slot="5 mb")
    assert store.family("v").raw.property_int_value("rocksdb.block-cache-capacity") == 5 * MIB
    store.close()


def test_a_store_opens_with_other_options_than_it_was_written_with(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    batch = WriteBatch()
    batch.put(store.family("v"), b"k", b"x")
    store.write(batch)
    store.family("v").raw.flush()
    store.close(remove=False)
    other = {"compaction__style": "universal", "use_bloom_filter": "false", "block__blocksize": "1 kb"}
    store = open_store(tmp_path, **other, memory__partitioned_index_filters="true")
    assert store.family("v").get(b"k") == b"x"
    store.close()


READ_ELSEWHERE = {
    rocksdb_options.DIRECTORIES.key,
    rocksdb_options.TRANSFER_THREADS.key,
    rocksdb_options.MEMORY_PER_TASKMANAGER.key,
    rocksdb_options.MEMORY_PER_SLOT.key,
    rocksdb_options.MANAGED_MEMORY.key,
    rocksdb_options.WRITE_BUFFER_RATIO.key,
    rocksdb_options.LOG_DIRECTORY.key,
    rocksdb_options.WRITE_BUFFERS_TO_MERGE.key,
    rocksdb_options.BLOCK_CACHE_SIZE.key,
    rocksdb_options.BLOOM_FILTER_BITS.key,
}
"""Covered by separate tests, here or beside the backend."""


@pytest.mark.parametrize("option", [*options_in(rocksdb_options)], ids=lambda option: option.key)
def test_every_option_arrives_or_says_why_it_has_no_effect(option: Option[Any]) -> None:
    arrives = option.key in READ_ELSEWHERE or option.key in {PREFIX + name for name, *_ in ARRIVALS}
    assert arrives != bool(option.no_effect)
