"""The archive of Spark's classes: who records it, who uses it, and when there is none. No JVM is started here."""

import os
from pathlib import Path

import psutil
import pytest

from penstock.spark import class_archive
from penstock.spark.class_archive import KEEP_S, MAGIC, ClassArchive, archive_options, cache_folder
from tests.quick_jvm import ARCHIVE

USE, RECORD = "-XX:SharedArchiveFile=", "-XX:ArchiveClassesAtExit="


@pytest.fixture
def archive(tmp_path: Path) -> ClassArchive:
    return ClassArchive(tmp_path / "cache", "classes-a")


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with an empty cache and no options for Java."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in class_archive.JAVA_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "penstock"


def recording_of(options: str) -> Path:
    """The file that a JVM with these options would write."""
    assert options.startswith(RECORD)
    return Path(options.removeprefix(RECORD).split()[0])


def test_the_second_start_records_and_the_third_uses_the_archive(archive: ClassArchive) -> None:
    assert archive.options() == ""
    recording_of(archive.options()).write_bytes(MAGIC + b"classes")
    assert archive.options().split()[0] == f"{USE}{archive.file}"
    assert archive.file.read_bytes() == MAGIC + b"classes"
    assert archive.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not ARCHIVE.exists() or not ARCHIVE.stat().st_size, reason="this Java writes no archive")
def test_an_archive_of_a_real_jvm_counts_as_complete() -> None:
    os.utime(ARCHIVE)
    assert class_archive.is_complete(ARCHIVE)


def test_what_a_jvm_has_not_written_to_its_end_is_not_used(archive: ClassArchive) -> None:
    archive.options()
    recording_of(archive.options()).write_bytes(bytes(len(MAGIC)) + b"classes")
    assert archive.options().startswith(RECORD)
    assert not archive.file.exists()


def test_a_recording_from_before_the_machine_started_is_not_used(archive: ClassArchive) -> None:
    archive.options()
    recording = recording_of(archive.options())
    recording.write_bytes(MAGIC)
    os.utime(recording, (0, psutil.boot_time() - 10))
    assert archive.options().startswith(RECORD)


def test_two_starts_at_once_record_under_different_names(archive: ClassArchive) -> None:
    archive.options()
    assert recording_of(archive.options()) != recording_of(archive.options())


def test_a_jvm_that_records_nothing_is_not_asked_for_ever(archive: ClassArchive) -> None:
    assert [bool(archive.options()) for _ in range(5)] == [False, True, True, False, False]


def test_archives_that_nobody_has_used_for_long_are_removed(archive: ClassArchive) -> None:
    archive.options()
    recording = recording_of(archive.options())
    old, other = archive.folder / "classes-b.jsa", archive.folder / "classes-c.jsa"
    for path in (recording, old, other):
        path.write_bytes(MAGIC)
    os.utime(old, (0, old.stat().st_mtime - KEEP_S - 60))
    archive.options()
    assert not old.exists() and other.exists() and archive.file.exists()


def test_a_folder_that_others_can_write_to_is_not_used(archive: ClassArchive) -> None:
    archive.folder.mkdir()
    archive.folder.chmod(0o777)
    assert [archive.options() for _ in range(3)] == ["", "", ""]


def test_the_users_own_choice_wins(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"spark.driver.extraJavaOptions": "-Xshare:off"}
    assert [archive_options(settings) for _ in range(2)] == ["", ""]
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:SharedArchiveFile=/mine.jsa")
    assert [archive_options({}) for _ in range(2)] == ["", ""]
    assert not user.exists()


def test_another_class_path_has_another_archive(user: Path) -> None:
    assert archive_options({}) == ""
    assert archive_options({"spark.jars": "more.jar"}) == ""  # a first start again
    assert recording_of(archive_options({})).parent == user == cache_folder()


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail(user: Path) -> None:
    user.write_text("a file where the folder should be")
    assert archive_options({}) == ""
