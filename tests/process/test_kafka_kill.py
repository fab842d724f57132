"""The program of docs/connectors/kafka.md, whose driver is killed again and again while records come."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.services import RunningService
from tests.docs.pages import files_of
from tests.kafka_topics import Topic
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.e2e]
CUSTOMERS = 7
ROUNDS = 3
PER_ROUND = 3_000


def run(program: Path, folder: Path, arguments: list[str]) -> "subprocess.Popen[bytes]":
    settings = [f"-Dpenstock.registry.dir={folder / 'registry'}", "-Dspark.master=local[2,4]"]
    settings += [f"-Dexecution.checkpointing.dir={folder / 'checkpoints'}", "-Dpenstock.epoch.max-rows=500"]
    command = [sys.executable, "-m", "penstock", "run", "-p", "2", "--resume", *settings, str(program), *arguments]
    with open(folder / "driver.txt", "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, start_new_session=True)


def rows(folder: Path) -> list[dict[str, Any]]:
    files = [path for path in folder.glob("*") if not path.name.startswith((".", "_"))]
    return [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]


def order(number: int) -> tuple[int, str]:
    text = json.dumps({"id": number, "customer": f"c{number % CUSTOMERS}", "amount": number})
    return number % 4, text


def test_a_driver_killed_between_epochs_reads_each_record_once(kafka: RunningService, tmp_path: Path) -> None:
    program = tmp_path / "order_totals.py"
    program.write_text(files_of("docs/connectors/kafka.md")[program.name], encoding="utf-8")
    out = tmp_path / "out"
    topic = Topic(kafka.address, 4)
    sent = 0
    for _ in range(ROUNDS):
        numbers = range(sent, sent + PER_ROUND)
        if sent % (2 * PER_ROUND):
            topic.transaction(map(order, numbers), "commit")
        else:
            topic.fill(map(order, numbers))
        topic.transaction(map(order, range(500)), "abort")
        before = len(rows(out))
        sent += PER_ROUND
        driver = run(program, tmp_path, [kafka.address, topic.name, str(out)])
        try:
            # In the middle of what was sent: epochs are small, and checkpoints are a second apart.
            wait_until(lambda before=before: len(rows(out)) > before)  # type: ignore[misc]
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    driver = run(program, tmp_path, [kafka.address, topic.name, str(out)])
    try:
        wait_until(lambda: len(rows(out)) >= sent)
    finally:
        os.killpg(driver.pid, signal.SIGTERM)
        driver.wait()
    found = rows(out)
    assert Counter(row["id"] for row in found) == Counter(range(sent))
    totals = {row["customer"]: row["total"] for row in sorted(found, key=lambda row: row["total"])}
    assert totals == {f"c{c}": sum(n for n in range(sent) if n % CUSTOMERS == c) for c in range(CUSTOMERS)}
