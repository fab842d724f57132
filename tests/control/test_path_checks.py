"""Paths are checked before Spark starts."""

from pathlib import Path

import pytest

from penstock.common import Types
from penstock.control.path_checks import require_paths
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import FileSink
from penstock.errors import SnapshotNotFoundError, UsageError
from penstock.model.configuration import Configuration
from penstock.storage.address import require_folder

CHECKPOINTS = "execution.checkpointing.dir"
INTERVAL = {"execution.checkpointing.interval": "1s"}


def settings(**values: str) -> Configuration:
    return Configuration.from_dict(values)


@pytest.mark.parametrize("key", [CHECKPOINTS, "execution.checkpointing.savepoint-dir"])
def test_a_folder_that_is_a_file_is_refused(tmp_path: Path, key: str) -> None:
    file = tmp_path / "file"
    file.touch()
    require_paths(settings(**INTERVAL, **{key: str(tmp_path / "new" / "folder")}), resumes=False)
    for path in (file, file / "below"):
        with pytest.raises(UsageError, match=f"'{path}' cannot be used: '{file}' is not a folder"):
            require_paths(settings(**INTERVAL, **{key: str(path)}), resumes=False)


def test_a_folder_that_nobody_will_write_is_not_checked(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    require_paths(settings(**{CHECKPOINTS: str(file)}), resumes=False)  # no checkpoints
    require_paths(settings(**INTERVAL, **{"execution.checkpointing.storage": "jobmanager"}), resumes=False)


def test_a_folder_that_cannot_be_written_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(UsageError, match=f"the output '{tmp_path}/a' cannot be used: '{tmp_path}' is not writable"):
        require_folder(f"{tmp_path}/a", "output")


def test_a_missing_snapshot_is_refused_unless_a_job_may_be_resumed(tmp_path: Path) -> None:
    start = settings(**{"execution.state-recovery.path": str(tmp_path / "absent")})
    with pytest.raises(SnapshotNotFoundError) as refusal:
        require_paths(start, resumes=False)
    assert refusal.value.exit_code == 3
    require_paths(start, resumes=True)


def test_a_sink_that_cannot_write_is_known_before_spark_starts(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    stream = env.from_collection([1], Types.LONG())
    stream.sink_to(FileSink.for_row_format(str(file), "json").build()).uid("out")
    with pytest.raises(UsageError, match=f"the folder of the sink 'out', '{file}' cannot be used"):
        env.execute("job")
    assert env._spark is None
