"""The registry: records are found by id, prefix and name, and a dead driver is noticed."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.control.registry import SILENCE_LIMIT_MS, ProcessRecord, Registry, registry_of
from penstock.control.tokens import Tokens
from penstock.errors import JobConflictError, JobNotFoundError, StorageError
from penstock.model.configuration import Configuration
from penstock.runtime.process.log_lines import open_log
from tests.records import A_ID, B_ID, NO_PID, job_record


class FixedClock:
    def now_ms(self) -> int:
        return 10**12

    def monotonic_s(self) -> float:
        return 0.0


def test_a_written_record_is_read_back_whole(tmp_path: Path) -> None:
    record = job_record(processes=[ProcessRecord(7, "here", "taskmanager", ["keyed/0"])], watermark=-5, failure="é")
    Registry(tmp_path / "new" / "folder").write(record)
    assert Registry(tmp_path / "new" / "folder").read(A_ID) == record


def test_a_record_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "registry")
    registry.write(job_record())
    assert stat.S_IMODE((registry.folder / f"{A_ID}.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(registry.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("first", ["record", "token", "log"])
def test_security_s16_whatever_is_written_first_makes_a_private_registry(tmp_path: Path, first: str) -> None:
    registry = Registry(tmp_path / "state" / "registry")
    if first == "record":
        registry.write(job_record())
    elif first == "token":
        Tokens.new().write(registry.log_dir(A_ID))
    else:
        open_log(registry.log_dir(A_ID) / "driver.log").close()
    made = [path for path in (tmp_path / "state").rglob("*") if path.is_dir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "state", *made)} == {0o700}


def test_a_reader_sees_the_old_record_or_the_new_one_while_it_is_replaced(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.write(job_record())
    done = threading.Event()

    def write_many() -> None:
        for epoch in range(300):
            registry.write(job_record(epoch=epoch, failure="x" * epoch * 10))
        done.set()

    writer = threading.Thread(target=write_many)
    writer.start()
    epochs = []
    while not done.is_set():
        epochs.append(registry.read(A_ID).epoch)
    writer.join()
    assert epochs == sorted(epochs)
    assert [path.name for path in tmp_path.iterdir()] == [f"{A_ID}.json"]  # no temporary file is left


def test_a_write_that_fails_leaves_the_old_record_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry(tmp_path)
    registry.write(job_record(epoch=1))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StorageError, match="No space left.*penstock.registry.dir"):
        registry.write(job_record(epoch=2))
    assert registry.read(A_ID).epoch == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_jobs_are_listed_oldest_first_and_files_that_are_no_records_are_left_out(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.write(job_record(B_ID, started_ms=1))
    registry.write(job_record(A_ID, started_ms=2))
    (tmp_path / f"{'c' * 32}.json").write_text("{half", encoding="utf-8")
    assert [record.job_id for record in registry.list()] == [B_ID, A_ID]


def test_an_absent_folder_holds_no_jobs(tmp_path: Path) -> None:
    assert Registry(tmp_path / "absent").list() == []


def test_a_record_of_a_later_version_with_more_fields_is_read(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.write(job_record())
    path = tmp_path / f"{A_ID}.json"
    path.write_text(path.read_text(encoding="utf-8").replace("{", '{"added_later": 1,', 1), encoding="utf-8")
    assert registry.read(A_ID) == job_record()


def test_a_job_is_found_by_id_by_unique_prefix_and_by_the_name_of_the_one_that_runs(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.write(job_record(A_ID))
    registry.write(job_record(B_ID, name="totals", status="FINISHED"))
    assert registry.find(A_ID).job_id == A_ID
    assert registry.find("abab").job_id == B_ID
    assert registry.find("totals").job_id == A_ID


@pytest.mark.parametrize("text", ["a", "totals"])
def test_an_ambiguous_text_is_refused_with_the_ids(tmp_path: Path, text: str) -> None:
    registry = Registry(tmp_path)
    registry.write(job_record(A_ID))
    registry.write(job_record(B_ID))
    with pytest.raises(JobConflictError, match=f"(?s){A_ID}.*{B_ID}"):
        registry.find(text)


@pytest.mark.parametrize("text", ["b", "other", "", "../x", A_ID + "a"])
def test_a_text_that_matches_no_job_is_not_found(tmp_path: Path, text: str) -> None:
    registry = Registry(tmp_path)
    registry.write(job_record(A_ID))
    with pytest.raises(JobNotFoundError):
        registry.find(text)


def test_the_name_of_a_job_that_no_longer_runs_is_not_found_but_the_message_has_its_id(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.write(job_record(A_ID, status="FAILED"))
    with pytest.raises(JobNotFoundError, match=A_ID):
        registry.find("totals")


def test_a_path_is_not_taken_for_a_job_id(tmp_path: Path) -> None:
    with pytest.raises(JobNotFoundError, match="32 hex"):
        Registry(tmp_path).read("../secrets")


def test_a_running_job_without_its_process_is_lost(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    assert registry.status(job_record()) == "RUNNING"
    assert registry.status(job_record(pid=NO_PID)) == "LOST"
    assert registry.status(job_record(pid=NO_PID, status="FINISHED")) == "FINISHED"


def test_a_process_that_only_has_the_old_pid_is_not_the_driver(tmp_path: Path) -> None:
    before_this_process_started_ms = 1_700_000_000_000
    assert Registry(tmp_path).status(job_record(updated_ms=before_this_process_started_ms)) == "LOST"


def test_a_driver_on_another_machine_is_lost_after_a_minute_of_silence(tmp_path: Path) -> None:
    registry = Registry(tmp_path, FixedClock())
    now_ms = FixedClock().now_ms()
    assert registry.is_alive(job_record(host="elsewhere", updated_ms=now_ms - SILENCE_LIMIT_MS + 1))
    assert not registry.is_alive(job_record(host="elsewhere", updated_ms=now_ms - SILENCE_LIMIT_MS))


@pytest.mark.process
def test_a_killed_driver_is_lost_even_before_its_parent_has_collected_it(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        record = job_record(pid=child.pid)
        assert Registry(tmp_path).is_running(record)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and still a zombie
        assert not Registry(tmp_path).is_running(record)
    finally:
        child.kill()
        child.communicate()


def test_the_default_folder_is_in_the_users_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert registry_of(Configuration()).folder == tmp_path / ".local" / "state" / "penstock" / "registry"


def test_the_configuration_may_name_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    configuration = Configuration().set_string("penstock.registry.dir", "~/jobs")
    assert registry_of(configuration).folder == tmp_path / "jobs"


@pytest.mark.parametrize("text", [B_ID, B_ID[:3], "other"])
def test_a_job_whose_driver_is_gone_is_forgotten_with_its_logs(tmp_path: Path, text: str) -> None:
    registry = Registry(tmp_path)
    registry.write(job_record(A_ID))
    registry.write(job_record(B_ID, name="other", pid=NO_PID))
    registry.write_sizes(B_ID, [])
    assert registry.forget(text).job_id == B_ID
    assert [record.job_id for record in registry.list()] == [A_ID] and not registry.log_dir(B_ID).exists()
    with pytest.raises(JobNotFoundError):
        registry.forget(text)


def test_a_running_job_is_not_forgotten_and_several_are_not_guessed(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.write(job_record(A_ID))
    with pytest.raises(JobConflictError, match="alive; cancel or stop the job first"):
        registry.forget(A_ID)
    registry.write(job_record(B_ID, pid=NO_PID))
    with pytest.raises(JobConflictError, match="matches 2 jobs"):
        registry.forget("totals")
    with pytest.raises(JobNotFoundError):
        registry.forget("")
    assert len(registry.list()) == 2
