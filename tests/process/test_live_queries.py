"""docs/how-to/query-live-state.md as it is written, and queries of its job while TaskManagers are killed."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.control.registry import JobRecord, Registry
from penstock.errors import QueryRetryError
from penstock.query import StateClient, connect
from tests.docs.pages import ROOT, blocks_of, files_of
from tests.process.programs import Started, environment
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

PAGE = "docs/how-to/query-live-state.md"
KEYS = [f"k{number}" for number in range(20)]
FILES = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("queries")
    for name, text in files_of(PAGE).items():
        (path / name).write_text(text, encoding="utf-8")
    (orders,) = [block.text for block in blocks_of(ROOT / "README.md") if block.language == "json"]
    (path / "orders").mkdir()
    (path / "orders" / "1.json").write_text(orders, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def job(folder: Path) -> Iterator[Started]:
    settings = ["-D", "penstock.epoch.interval=200ms", "-D", "restart-strategy.type=fixed-delay"]
    settings += ["-D", "restart-strategy.fixed-delay.attempts=5", "-D", "restart-strategy.fixed-delay.delay=10ms"]
    started = Started.of(["penstock", "run", "-p", "2", *settings, "totals.py"], folder)
    started.await_totals(3)
    yield started
    started.interrupt()


def registry(folder: Path) -> Registry:
    return Registry(folder / "state" / "penstock" / "registry")


def record(folder: Path) -> JobRecord:
    (found,) = registry(folder).list()
    return found


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


def test_i15_r4_no_answer_is_of_an_epoch_that_was_taken_back(job: Started, folder: Path) -> None:
    """Each file adds 1 to every key, and an epoch has whole files: at its end all keys are equal, within it never."""
    answers: list[list[Any]] = []
    retries: list[str] = []
    done = threading.Event()
    with connect("totals", registry_dir=registry(folder).folder, retry_s=0) as client:
        reader = threading.Thread(target=ask_until, args=(done, client, answers, retries))
        reader.start()
        try:
            for number in range(FILES):
                add_file(folder, number)
                if number in (3, 7):
                    kill_taskmanager(folder, len(answers), answers, retries)
            wait_until(lambda: answers and answers[-1] == [float(FILES)] * len(KEYS))
        finally:
            done.set()
            reader.join()
        last = client.read("totals", KEYS, consistency="checkpointed")
    assert record(folder).attempt >= 3, "both kills have hit"
    assert retries and set(retries) <= {"NOT_READY", "EPOCH_ENDS"}
    assert [values for values in answers if len(set(values)) != 1] == []
    assert {values[0] for values in answers} <= {None, *map(float, range(FILES + 1))}
    assert len(set(last.values)) == 1 and last.checkpoint is not None


def ask_until(done: threading.Event, client: StateClient, answers: list[list[Any]], retries: list[str]) -> None:
    while not done.is_set():
        try:
            answers.append(client.read("totals", KEYS).values)
        except QueryRetryError as error:
            retries.append(error.code)


def add_file(folder: Path, number: int) -> None:
    rows = [json.dumps({"customer": key, "amount": 1.0}) + "\n" for key in KEYS]
    hidden = folder / "orders" / f".n{number}.json"
    hidden.write_text("".join(rows), encoding="utf-8")
    hidden.rename(folder / "orders" / f"n{number}.json")


def kill_taskmanager(folder: Path, seen: int, answers: list[list[Any]], retries: list[str]) -> None:
    """SIGKILL to one, once queries are answered; until they got the retry answer, and are answered again."""
    wait_until(lambda: len(answers) > seen)
    attempt, told = record(folder).attempt, len(retries)
    pids = [process.pid for process in record(folder).processes if process.role == "taskmanager"]
    os.kill(pids[-1], signal.SIGKILL)
    wait_until(lambda: len(retries) > told)
    wait_until(lambda: record(folder).attempt > attempt)
    seen = len(answers)
    wait_until(lambda: len(answers) > seen)
