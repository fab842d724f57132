"""The tutorial docs/tutorial/first-job.md as it is written: run, kill, resume, stop, look, test."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.main import main
from tests.docs.pages import ROOT, blocks_of, files_of
from tests.process.programs import Started, environment
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

PAGE = "docs/tutorial/first-job.md"
RANDOM = re.compile(r"savepoint-[0-9a-f]{6}-[0-9a-f]{12}|[0-9a-f]{32}|[0-9a-f]{6}…|(?<=Path: ).*/(?=savepoints/)")


def blocks(language: str) -> list[str]:
    return [block.text for block in blocks_of(ROOT / PAGE) if block.language == language]


def transcript(command: str) -> list[str]:
    """What the page shows below the command, the last time that it is given."""
    found = [
        part for text in blocks("console") for part in re.split(r"^\$ ", text, flags=re.M) if part.startswith(command)
    ]
    return found[-1].splitlines()[1:]


def shown_after(first: str) -> list[list[str]]:
    """What the page shows for every time that it gives this command."""
    texts = [text.removeprefix("$ ") for text in blocks("console")]
    return [text.splitlines()[1:] for text in texts if text.startswith(first)]


def plain(lines: list[str]) -> list[str]:
    """Without ids and folders, which differ."""
    return [RANDOM.sub("…", line).rstrip() for line in lines]


def results(folder: Path) -> list[str]:
    files = [path for path in (folder / "out").glob("*") if not path.name.startswith((".", "_"))]
    return sorted(line for path in files for line in path.read_text(encoding="utf-8").splitlines())


def await_results(job: Started, folder: Path, expected: list[str]) -> None:
    def there() -> bool:
        assert job.process.poll() is None, f"it has ended: {job.out}\n{job.err}"
        return len(results(folder)) >= len(expected)

    wait_until(there)
    assert results(folder) == expected


def run(folder: Path, *command: str) -> list[str]:
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}\n{done.stderr}"
    return done.stdout.splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in files_of(PAGE).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "visits").mkdir()
    return tmp_path


def test_the_first_job_survives_a_kill_and_its_state_can_be_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first_visits, more_visits = blocks("json")
    first_results, all_results = shown_after("cat out/*")
    (folder / "visits" / "1.json").write_text(first_visits, encoding="utf-8")

    job = Started.of([sys.executable, "-m", "penstock", "run", "-p", "2", "visits.py"], folder)
    await_results(job, folder, first_results)
    job.process.send_signal(signal.SIGKILL)
    job.process.wait(60)
    (folder / "visits" / "2.json").write_text(more_visits, encoding="utf-8")
    job = Started.of([sys.executable, "-m", "penstock", "run", "-p", "2", "--resume", "visits.py"], folder)
    await_results(job, folder, all_results)

    stopped = run(folder, sys.executable, "-m", "penstock", "stop", "visits", "-p", "savepoints")
    assert job.process.wait(120) == 0, job.err
    assert plain(stopped) == plain(transcript("penstock stop"))
    (savepoint,) = (folder / "savepoints").iterdir()
    capsys.readouterr()
    assert main(["state", "show", str(savepoint), "--operator", "count-visits", "--state", "count"]) == 0
    assert capsys.readouterr().out.splitlines() == transcript("penstock state show")


def test_the_test_of_the_first_job_passes(folder: Path) -> None:
    (command,) = (text.removeprefix("$ ").split() for text in blocks("console") if "pytest" in text)
    run(folder, sys.executable, *command[1:], "-p", "no:cacheprovider")
