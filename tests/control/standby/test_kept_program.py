"""What is stored of a program, and what a standby makes of it."""

import io
import sys
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.control.standby.kept_program import KeptProgram, describe, pack, unpack
from penstock.control.standby.program_files import program_files
from penstock.errors import UsageError

PROGRAM = KeptProgram(
    job_id="a" * 32, name="totals", job_address="/c/a", job_file="job.py", folder="/p", working_folder="/w"
)


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "job.py"


def test_a_program_is_stored_with_what_it_imports_from_its_folder_and_nothing_else(tmp_path: Path) -> None:
    job = write(
        tmp_path,
        {
            "job.py": "import json, rules.prices\nfrom helper import add\ndef late():\n    import lazy\n",
            "helper.py": "import deep",
            "deep.py": "",
            "lazy.py": "",
            "rules/__init__.py": "from . import prices",
            "rules/prices.py": "import other",
            "rules/table.csv": "a,b",
            "rules/__pycache__/prices.pyc": "x",
            "other/inner.py": "",
            "unused.py": "",
            "secret.env": "x",
            "penstock/code.py": "",
        },
    )
    names = set(program_files(job))
    assert names == {
        "job.py", "helper.py", "deep.py", "lazy.py", "rules/__init__.py", "rules/prices.py", "rules/table.csv",
        "other/inner.py",
    }  # fmt: skip


def test_modules_that_are_loaded_by_name_are_stored_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = write(tmp_path, {"job.py": "", "plugin_of_this_test.py": ""})
    monkeypatch.syspath_prepend(tmp_path)
    __import__("plugin_of_this_test")
    assert set(program_files(job)) == {"job.py", "plugin_of_this_test.py"}
    del sys.modules["plugin_of_this_test"]


def test_more_files_by_pattern(tmp_path: Path) -> None:
    job = write(tmp_path, {"job.py": "", "schemas/a.json": "{}", "schemas/b.txt": ""})
    assert set(program_files(job, ["schemas/*.json"])) == {"job.py", "schemas/a.json"}


@pytest.mark.parametrize("pattern", ["absent/*", "../*", "/etc/hosts", "link"])
def test_a_pattern_that_matches_nothing_or_leads_out_is_refused(tmp_path: Path, pattern: str) -> None:
    job = write(tmp_path / "program", {"job.py": ""})
    (tmp_path / "outside").touch()
    (tmp_path / "program" / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match="penstock.ha.files"):
        program_files(job, [pattern])


def test_a_program_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.control.standby.program_files.MAX_BYTES", 10)
    job = write(tmp_path, {"job.py": "import big", "big.py": "#" * 20})
    with pytest.raises(UsageError, match="big.py.*install large packages"):
        program_files(job)


def test_what_was_packed_is_unpacked_for_the_owner_alone(tmp_path: Path) -> None:
    archive = pack(PROGRAM, {"job.py": b"import a.b", "a/b.py": b""})
    assert unpack(archive, tmp_path, "DIR") == PROGRAM == describe(archive, "DIR")
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.py")} == {"job.py", "a/b.py"}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*.py")} == {0o600}
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["files/../../x.py", "files//etc/x", "x.py", "files/a\\..\\b", "files/./x"])
def test_s_an_archive_that_leads_out_of_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    archive = pack(PROGRAM, {})
    buffer = io.BytesIO(archive)
    with zipfile.ZipFile(buffer, "a") as changed:
        changed.writestr(name, b"evil")
    (tmp_path / "in").mkdir()
    with pytest.raises(UsageError, match="not one that --ha has stored"):
        unpack(buffer.getvalue(), tmp_path / "in", "DIR")
    assert list(tmp_path.rglob("*")) == [tmp_path / "in"]


def test_s_an_archive_that_grows_when_it_is_unpacked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = pack(PROGRAM, {"a.py": b"0" * 5_000, "b.py": b"0" * 5_000})
    monkeypatch.setattr("penstock.control.standby.kept_program.MAX_BYTES", 6_000)
    with pytest.raises(UsageError, match="b.py"):
        unpack(archive, tmp_path, "DIR")


@pytest.mark.parametrize("damage", [lambda data: data[:-30], lambda data: b"", lambda data: b"x" * 100])
def test_a_damaged_archive_is_one_message(tmp_path: Path, damage: object) -> None:
    with pytest.raises(UsageError, match="the program in DIR cannot be read"):
        unpack(damage(pack(PROGRAM, {"job.py": b""})), tmp_path, "DIR")  # type: ignore[operator]


def test_an_archive_of_another_version_is_refused() -> None:
    with pytest.raises(UsageError, match="another version of Penstock"):
        describe(pack(replace(PROGRAM, version=2), {}), "DIR")
