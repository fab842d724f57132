"""The tutorial docs/tutorial/kafka-to-kafka-and-postgres.md as it is written: send, run, look, kill, resume, look."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.services import start_service
from tests.docs.pages import ROOT, blocks_of, files_of
from tests.process.programs import environment
from tests.waiting import LIMIT_S, wait_until

pytestmark = [pytest.mark.process, pytest.mark.e2e, pytest.mark.timeout(900)]
PAGE = "docs/tutorial/kafka-to-kafka-and-postgres.md"
RUN = ("penstock", "run", "-p", "2", "--require-exactly-once")


@pytest.fixture
def place(tmp_path: Path, database: str) -> Iterator[Path]:
    """The programs in a folder, with a broker of their own: the page gives its topics plain names."""
    for name, text in files_of(PAGE).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    broker = start_service("kafka", tmp_path / "broker", os.getpid())
    (tmp_path / "variables").write_text(f"{broker.address}\n{database}", encoding="utf-8")
    yield tmp_path
    broker.stop()


def variables(folder: Path) -> dict[str, str]:
    brokers, shop = (folder / "variables").read_text(encoding="utf-8").splitlines()
    return {**environment(folder), "BROKERS": brokers, "SHOP_URL": shop}


def say(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=variables(folder), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    return done.stdout if done.returncode == 0 else done.stderr


@contextmanager
def running(folder: Path, *flags: str) -> Iterator["subprocess.Popen[bytes]"]:
    with open(folder / "log", "ab") as log:
        command = (*RUN, *flags, "shop_rewards.py")
        job = subprocess.Popen(command, cwd=folder, env=variables(folder), stdout=log, stderr=log)
    try:
        yield job
    finally:
        job.kill()
        job.wait()


def shown() -> list[str]:
    """What the page shows for each look."""
    looks = [block.text for block in blocks_of(ROOT / PAGE) if block.text.startswith("$ python look.py\n")]
    return [text.partition("\n")[2] for text in looks]


def await_look(folder: Path, job: "subprocess.Popen[bytes]", expected: str) -> None:
    def seen() -> bool:
        assert job.poll() is None, (folder / "log").read_text(encoding="utf-8")
        return say(folder, sys.executable, "look.py") == expected

    wait_until(seen, pause_s=1.0)


def test_a_killed_job_sends_each_reward_once_and_keeps_each_total(place: Path) -> None:
    first, last = shown()
    say(place, sys.executable, "send_orders.py", "0", "300")
    assert "delivery: exactly once, end to end\n" in say(place, "penstock", "info", "shop_rewards.py")
    with running(place) as job:
        await_look(place, job, first)
        job.send_signal(signal.SIGKILL)
        job.wait()
    say(place, sys.executable, "send_orders.py", "300", "300")
    with running(place, "--resume") as job:
        await_look(place, job, last)
        job.send_signal(signal.SIGTERM)
        job.wait(LIMIT_S)
