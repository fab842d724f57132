"""Following the log of committed epochs of a job that is running."""

import io
import json
from pathlib import Path

from bench.figures import Batch, parse_batches
from bench.programs.epoch_log import committed_epochs, copy_until


def epoch_line(number: int, rows: int) -> str:
    return json.dumps({"epoch": number, "rows": rows, "started_ms": number, "finished_ms": number + 1}) + "\n"


def test_epochs_are_given_as_they_are_committed_and_the_last_ones_after_the_end(tmp_path: Path) -> None:
    path = tmp_path / "epochs.jsonl"
    written = iter(["", epoch_line(1, 10), epoch_line(2, 20)[:9], epoch_line(2, 20)[9:], epoch_line(3, 30)])

    def is_running() -> bool:
        text = next(written)
        with path.open("a") as log:
            log.write(text)
        return "3, " not in text

    assert [epoch["epoch"] for epoch in committed_epochs(path, is_running)] == [1, 2, 3]


def test_a_job_that_ends_before_its_first_epoch_gives_none(tmp_path: Path) -> None:
    assert list(committed_epochs(tmp_path / "missing.jsonl", lambda: False)) == []


def test_epochs_with_rows_become_batches_until_all_rows_are_in() -> None:
    epochs = [json.loads(epoch_line(number, rows)) for number, rows in enumerate([10, 0, 20, 99])]
    events = io.StringIO()
    assert copy_until(30, epochs, events) == 30
    assert parse_batches(events.getvalue()) == [Batch(10, 0, 1), Batch(20, 2, 3)]


def test_a_job_that_ends_early_is_short_of_rows() -> None:
    assert copy_until(30, [json.loads(epoch_line(0, 10))], io.StringIO()) == 10
