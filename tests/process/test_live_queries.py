"""docs/how-to/query-live-state.md as it is written."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks_of, files_of
from tests.process.programs import Started, environment, write_orders

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

PAGE = "docs/how-to/query-live-state.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("queries")
    for name, text in files_of(PAGE).items():
        (path / name).write_text(text, encoding="utf-8")
    write_orders(path)
    return path


@pytest.fixture(scope="module")
def job(folder: Path) -> Iterator[Started]:
    settings = ["-D", "penstock.epoch.interval=200ms", "-D", "restart-strategy.type=fixed-delay"]
    settings += ["-D", "restart-strategy.fixed-delay.attempts=5", "-D", "restart-strategy.fixed-delay.delay=10ms"]
    started = Started.of(["penstock", "run", "-p", "2", *settings, "totals.py"], folder)
    started.await_totals(3)
    yield started
    started.interrupt()


def run(folder: Path, command: list[str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_shows_what_its_commands_print(job: Started, folder: Path) -> None:
    (program,) = [block.text for block in blocks_of(ROOT / PAGE) if block.language == "output"]
    assert run(folder, [sys.executable, "ask.py"]) == program
    transcripts = [block.text for block in blocks_of(ROOT / PAGE) if block.language == "text"]
    shown = [part for text in transcripts for part in re.split(r"^\$ ", text, flags=re.M) if part.strip()]
    assert len(shown) == 2
    for part in shown:
        command, _, output = part.partition("\n")
        printed = run(folder, command.split())
        assert re.sub(r'"epoch":\d+', '"epoch":1', printed) == output
