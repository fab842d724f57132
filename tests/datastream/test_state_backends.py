"""State backends and checkpoint storages as objects, their legacy names, and what they mean (features H1 to H5, J3)."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from penstock import compat
from penstock.control.submission import Submission, submitted
from penstock.datastream import (
    CheckpointConfig,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    FsStateBackend,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    MemoryStateBackend,
    PredefinedOptions,
    RocksDBStateBackend,
)
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.errors import ConfigurationError, UsageError
from penstock.jobmanager.settings.storage_settings import StorageSettings
from penstock.model.configuration import Configuration
from tests.datastream.conftest import FakeSpark

CHK = "execution.checkpointing."


def settings_of(env: Env, spark: FakeSpark) -> dict[str, str]:
    """What a job of this environment would be started with."""
    env.from_collection([1]).print()
    env.execute_async("job")
    configuration = spark.jobs[-1].configuration
    assert isinstance(configuration, Configuration)
    return {key: value for key, value in configuration.to_dict().items() if key != "parallelism.default"}


# ---- signatures


SIGNATURES: list[tuple[type, str, str]] = [
    (HashMapStateBackend, "__init__", ""),
    (EmbeddedRocksDBStateBackend, "__init__", "enable_incremental_checkpointing=None"),
    (JobManagerCheckpointStorage, "__init__", "checkpoint_path=None max_state_size=None"),
    (
        FileSystemCheckpointStorage,
        "__init__",
        "checkpoint_path=None file_state_size_threshold=None write_buffer_size=-1",
    ),
    (
        MemoryStateBackend,
        "__init__",
        "checkpoint_path=None savepoint_path=None max_state_size=None using_asynchronous_snapshots=None",
    ),
    (
        FsStateBackend,
        "__init__",
        "checkpoint_directory_uri=None default_savepoint_directory_uri=None file_state_size_threshold=None "
        "write_buffer_size=None using_asynchronous_snapshots=None",
    ),
    (
        RocksDBStateBackend,
        "__init__",
        "checkpoint_data_uri=None enable_incremental_checkpointing=None checkpoint_stream_backend=None",
    ),
    (Env, "set_state_backend", "state_backend"),
    (Env, "get_state_backend", ""),
    (CheckpointConfig, "set_checkpoint_storage", "storage"),
    (CheckpointConfig, "set_checkpoint_storage_dir", "checkpoint_path"),
    (EmbeddedRocksDBStateBackend, "set_options", "options_factory_class_name"),
    (EmbeddedRocksDBStateBackend, "set_predefined_options", "options"),
    (EmbeddedRocksDBStateBackend, "set_number_of_transfer_threads", "number_of_transfer_threads"),
]


@pytest.mark.parametrize(("kind", "name", "parameters"), SIGNATURES)
def test_h4_a_class_takes_what_pyflink_s_takes_in_the_same_order(kind: type, name: str, parameters: str) -> None:
    found = [p for p in inspect.signature(getattr(kind, name)).parameters.values() if p.name not in ("self", "args")]
    written = [
        p.name if p.default is inspect.Parameter.empty else f"{p.name}={p.default!r}"
        for p in found
        if p.name != "kwargs"
    ]
    assert " ".join(written) == parameters


# ---- the classes


def test_rocksdb_options_are_kept_and_recorded(env: Env, spark: FakeSpark) -> None:
    backend = EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True)
    assert backend.get_predefined_options() is PredefinedOptions.DEFAULT
    assert backend.get_db_storage_paths() is None and backend.get_options() is None
    assert backend.get_number_of_transfer_threads() == 4 and backend.is_incremental_checkpoints_enabled()
    assert env.set_state_backend(backend).get_state_backend() is backend
    backend.set_db_storage_paths("/disk1/rocks", "file:///disk2/rocks")  # after it was handed over
    backend.set_predefined_options(PredefinedOptions.SPINNING_DISK_OPTIMIZED_HIGH_MEM)
    backend.set_number_of_transfer_threads(8)
    assert backend.get_db_storage_paths() == ["/disk1/rocks", "/disk2/rocks"]
    assert settings_of(env, spark) == {
        "state.backend.type": "rocksdb",
        CHK + "incremental": "true",
        "state.backend.rocksdb.localdir": "/disk1/rocks;/disk2/rocks",
        "state.backend.rocksdb.predefined-options": "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
        "state.backend.rocksdb.checkpoint.transfer.thread.num": "8",
    }


def test_what_is_not_set_on_rocksdb_is_left_to_the_configuration(env: Env, spark: FakeSpark) -> None:
    env.configure(Configuration.from_dict({CHK + "incremental": "true"}))
    env.set_state_backend(EmbeddedRocksDBStateBackend())
    assert settings_of(env, spark) == {"state.backend.type": "rocksdb", CHK + "incremental": "true"}


def test_an_options_factory_is_kept_and_said_to_have_no_effect(
    env: Env, spark: FakeSpark, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = EmbeddedRocksDBStateBackend()
    backend.set_options("org.example.Factory")
    assert backend.get_options() == "org.example.Factory"
    env.set_state_backend(backend).from_collection([1]).print()
    env.execute("job")
    assert (
        "note: state.backend.rocksdb.options-factory has no effect here: it names a Java class"
        in capsys.readouterr().err
    )


def test_in_a_program_of_pyflink_the_host_of_a_local_folder_does_not_count() -> None:
    compat.install()
    try:
        backend = EmbeddedRocksDBStateBackend()
        backend.set_db_storage_paths("file://disks/rocks/", "file:///other")
        assert backend.get_db_storage_paths() == ["/rocks", "/other"]
    finally:
        compat.uninstall()


def test_rocksdb_options_are_checked() -> None:
    backend = EmbeddedRocksDBStateBackend()
    with pytest.raises(UsageError, match="not the full path of a local folder"):
        backend.set_db_storage_paths("relative")
    with pytest.raises(UsageError, match="not the full path of a local folder"):
        backend.set_db_storage_paths("hdfs://namenode/x")
    with pytest.raises(UsageError, match="without ',', ':' and ';'"):
        backend.set_db_storage_paths("/one,/two")
    with pytest.raises(UsageError, match="give 1 or more"):
        backend.set_number_of_transfer_threads(0)
    with pytest.raises(TypeError, match="PredefinedOptions"):
        backend.set_predefined_options("DEFAULT")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not the full path of a local folder"):
        backend.set_db_storage_paths("file://host/x")
    backend.set_db_storage_paths("/x")
    backend.set_db_storage_paths()
    assert backend.get_db_storage_paths() is None


def test_predefined_options_have_pyflink_s_numbers() -> None:
    assert [(option.name, option.value) for option in PredefinedOptions] == [
        ("DEFAULT", 0),
        ("SPINNING_DISK_OPTIMIZED", 1),
        ("SPINNING_DISK_OPTIMIZED_HIGH_MEM", 2),
        ("FLASH_SSD_OPTIMIZED", 3),
    ]


def test_j2_a_file_storage_has_flink_s_limits_and_defaults() -> None:
    storage = FileSystemCheckpointStorage("s3://bucket/x")
    assert storage.get_checkpoint_path() == "s3://bucket/x" and storage.get_savepoint_path() is None
    assert (storage.get_min_file_size_threshold(), storage.get_write_buffer_size()) == (20480, 4096)
    assert FileSystemCheckpointStorage.MAX_FILE_STATE_THRESHOLD == 1048576
    chosen = FileSystemCheckpointStorage("/x", 2048, 0)
    assert (chosen.get_min_file_size_threshold(), chosen.get_write_buffer_size()) == (2048, 0)
    for threshold in (-2, 1048577):
        with pytest.raises(UsageError, match=r"must be in \[-1, 1048576\]"):
            FileSystemCheckpointStorage("/x", threshold)
    with pytest.raises(ValueError, match="checkpoint_path must not be None"):
        FileSystemCheckpointStorage()


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("file://var/checkpoints/", "file://var/checkpoints"),  # as PyFlink: the machine is checked when a job starts
        ("/data/checkpoints/", "/data/checkpoints"),
        ("s3://bucket/x/", "s3://bucket/x"),
        ("file:///", "file:///"),
        ("/", "/"),
    ],
)
def test_j2_a_storage_s_path_has_no_slash_at_its_end(written: str, kept: str) -> None:
    assert FileSystemCheckpointStorage(written).get_checkpoint_path() == kept
    assert JobManagerCheckpointStorage(written).get_checkpoint_path() == kept


@pytest.mark.parametrize("address", ["ftp://host/x", "file://user:hunter2@host/x", "file://host/x?a=b", ""])
def test_j2_a_storage_s_path_is_an_address(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        FileSystemCheckpointStorage(address)
    assert "hunter2" not in str(caught.value)


def test_j1_a_jobmanager_storage_has_flink_s_limit() -> None:
    storage = JobManagerCheckpointStorage()
    assert storage.get_max_state_size() == JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE == 5242880
    assert storage.get_checkpoint_path() is None and storage.get_savepoint_path() is None
    assert JobManagerCheckpointStorage("/x", 100).get_max_state_size() == 100
    with pytest.raises(UsageError, match="1 or more"):
        JobManagerCheckpointStorage(max_state_size=0)


def test_an_address_that_is_none_is_refused_at_once() -> None:
    for kind in (FileSystemCheckpointStorage, JobManagerCheckpointStorage, FsStateBackend, RocksDBStateBackend):
        with pytest.raises(ConfigurationError) as caught:
            kind("s3://key:hunter2@bucket/x")
        assert "hunter2" not in str(caught.value)


# ---- which one holds


def job_storage(env: Env, spark: FakeSpark) -> StorageSettings:
    return StorageSettings.of(Configuration.from_dict(settings_of(env, spark)))


def test_j3_only_a_folder_means_files(env: Env, spark: FakeSpark) -> None:
    env.configure(Configuration.from_dict({CHK + "dir": "/data"}))
    found = job_storage(env, spark)
    assert found.address == "/data" and found.limits.max_state_bytes is None


def test_j3_the_program_s_storage_goes_before_the_key(env: Env, spark: FakeSpark) -> None:
    env.get_checkpoint_config().set_checkpoint_storage(FileSystemCheckpointStorage("/program", 100))
    env.configure(Configuration.from_dict({CHK + "storage": "jobmanager", CHK + "dir": "/key"}))
    found = job_storage(env, spark)
    assert found.address == "/program" and found.limits.inline_bytes == 100


def test_j3_a_legacy_backend_goes_before_the_program_s_storage(env: Env, spark: FakeSpark) -> None:
    env.set_state_backend(FsStateBackend("/legacy", file_state_size_threshold=7))
    env.get_checkpoint_config().set_checkpoint_storage(JobManagerCheckpointStorage())
    found = job_storage(env, spark)
    assert found.address == "/legacy" and found.limits.inline_bytes == 7 and found.limits.max_state_bytes is None


def test_j3_a_new_backend_leaves_the_program_s_storage(env: Env, spark: FakeSpark) -> None:
    env.set_state_backend(HashMapStateBackend())
    env.get_checkpoint_config().set_checkpoint_storage(JobManagerCheckpointStorage(max_state_size=1000))
    assert job_storage(env, spark).limits.max_state_bytes == 1000


def test_set_checkpoint_storage_dir_is_a_file_storage(env: Env, spark: FakeSpark) -> None:
    config = env.get_checkpoint_config().set_checkpoint_storage_dir("s3://bucket/x")
    assert isinstance(config.get_checkpoint_storage(), FileSystemCheckpointStorage)
    assert settings_of(env, spark) == {CHK + "storage": "filesystem", CHK + "dir": "s3://bucket/x"}


def test_externalized_checkpoints_under_their_old_name(env: Env) -> None:
    config = env.get_checkpoint_config()
    config.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
    assert config.get_externalized_checkpoint_retention() is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    config.set_externalized_checkpoint_cleanup(ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION)
    assert config.get_externalized_checkpoint_cleanup() is ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION


def test_things_that_are_no_backend_and_no_storage_are_refused(env: Env) -> None:
    with pytest.raises(TypeError, match="give a HashMapStateBackend"):
        env.set_state_backend("rocksdb")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="give a JobManagerCheckpointStorage"):
        env.get_checkpoint_config().set_checkpoint_storage("/data")  # type: ignore[arg-type]


# ---- legacy names


def test_h1_memory_state_backend(env: Env, spark: FakeSpark) -> None:
    backend = MemoryStateBackend(None, "/savepoints", 1000, using_asynchronous_snapshots=False)
    assert backend.get_max_state_size() == 1000 and backend.get_savepoint_path() == "/savepoints"
    assert MemoryStateBackend().get_max_state_size() == MemoryStateBackend.DEFAULT_MAX_STATE_SIZE == 5242880
    assert backend.is_using_asynchronous_snapshots() and backend.get_checkpoint_path() is None
    assert settings_of(env.set_state_backend(backend), spark) == {
        "state.backend.type": "hashmap",
        CHK + "storage": "jobmanager",
        "penstock.jobmanager-storage.max-state-size": "1000 b",
        CHK + "savepoint-dir": "/savepoints",
    }


def test_h2_fs_state_backend(env: Env, spark: FakeSpark) -> None:
    backend = FsStateBackend("file:///data", "/savepoints", 2048, 4096)
    assert backend.get_checkpoint_path() == "file:///data" and backend.get_min_file_size_threshold() == 2048
    assert backend.get_write_buffer_size() == 4096 and FsStateBackend("/x").get_write_buffer_size() == 20480
    with pytest.raises(ValueError, match="'checkpoint_directory_uri' is required"):
        FsStateBackend()
    with pytest.raises(TypeError, match="give a boolean or None"):
        FsStateBackend("/x", using_asynchronous_snapshots="no")  # type: ignore[arg-type]
    assert settings_of(env.set_state_backend(backend), spark) == {
        "state.backend.type": "hashmap",
        CHK + "storage": "filesystem",
        CHK + "dir": "file:///data",
        CHK + "data-inline-threshold": "2 kb",
        CHK + "write-buffer-size": "4 kb",
        CHK + "savepoint-dir": "/savepoints",
    }


def test_h3_rocksdb_state_backend(env: Env, spark: FakeSpark) -> None:
    backend = RocksDBStateBackend("s3://bucket/x", True)
    backend.set_number_of_transfering_threads(2)
    assert backend.get_number_of_transfering_threads() == 2 and backend.is_incremental_checkpoints_enabled()
    assert isinstance(backend.get_checkpoint_backend(), FsStateBackend)
    assert settings_of(env.set_state_backend(backend), spark) == {
        "state.backend.type": "rocksdb",
        CHK + "storage": "filesystem",
        CHK + "dir": "s3://bucket/x",
        CHK + "incremental": "true",
        "state.backend.rocksdb.checkpoint.transfer.thread.num": "2",
    }


def test_h3_rocksdb_state_backend_on_another_s_storage(env: Env, spark: FakeSpark) -> None:
    backend = RocksDBStateBackend(checkpoint_stream_backend=MemoryStateBackend(max_state_size=9))
    assert settings_of(env.set_state_backend(backend), spark) == {
        "state.backend.type": "rocksdb",
        CHK + "storage": "jobmanager",
        "penstock.jobmanager-storage.max-state-size": "9 b",
    }
    for given in (None, HashMapStateBackend()):
        with pytest.raises(ValueError, match="checkpoint_data_uri"):
            RocksDBStateBackend(checkpoint_stream_backend=given)


# ---- old keys


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"state.backend": "jobmanager"}, {"state.backend.type": "hashmap", CHK + "storage": "jobmanager"}),
        (
            {"state.backend": "filesystem", "state.checkpoints.dir": "/data"},
            {"state.backend.type": "hashmap", CHK + "storage": "filesystem", CHK + "dir": "/data"},
        ),
        (
            {"state.backend": "rocksdb", "state.backend.incremental": "true"},
            {"state.backend.type": "rocksdb", CHK + "incremental": "true"},
        ),
        ({"state.backend.fs.memory-threshold": "1 kb"}, {CHK + "data-inline-threshold": "1 kb"}),
    ],
)
@pytest.mark.parametrize("origin", ["program", "flags", "yaml"])
def test_h5_old_keys_work_wherever_they_are_and_one_line_says_what_they_mean(
    env: Env,
    spark: FakeSpark,
    capsys: pytest.CaptureFixture[str],
    origin: str,
    old: dict[str, str],
    new: dict[str, str],
) -> None:
    overrides: dict[str, str] = {}
    if origin == "program":
        env.configure(Configuration.from_dict(old))
    elif origin == "flags":
        overrides = old
    else:
        Path("penstock.yaml").write_text("\n".join(f"{key}: {value}" for key, value in old.items()))
    with submitted(Submission(Path("job.py"), overrides=overrides)):
        assert settings_of(env, spark) == new
    lines = [line for line in capsys.readouterr().err.splitlines() if "is an old name" in line]
    assert [line.removeprefix("note: ").split()[0] for line in lines] == list(old)
    assert all(any(key in line for line in lines) for key in new)
    assert "/data" not in "".join(lines)  # an address may hold what is not to be shown


def test_h5_new_keys_say_nothing(env: Env, spark: FakeSpark, capsys: pytest.CaptureFixture[str]) -> None:
    env.configure(Configuration.from_dict({"state.backend.type": "hashmap", CHK + "dir": "/data"}))
    settings_of(env, spark)
    assert capsys.readouterr().err == ""


def test_a_key_without_effect_is_named_once(env: Env, spark: FakeSpark, capsys: pytest.CaptureFixture[str]) -> None:
    env.configure(Configuration.from_dict({"taskmanager.numberOfTaskSlots": "2"}))
    settings_of(env, spark)
    assert capsys.readouterr().err == (
        "note: taskmanager.numberOfTaskSlots has no effect here: set spark.executor.cores\n"
    )


def test_a_choice_is_taken_when_the_job_starts(env: Env, spark: FakeSpark, tmp_path: Any) -> None:
    env.set_state_backend(HashMapStateBackend())
    assert settings_of(env, spark)["state.backend.type"] == "hashmap"
    env.set_state_backend(EmbeddedRocksDBStateBackend())
    assert settings_of(env, spark)["state.backend.type"] == "rocksdb"
