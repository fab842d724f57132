"""A line of JSON per committed epoch, for benchmarks: `PENSTOCK_EPOCH_LOG` names the file."""

import json
import os

from penstock.jobmanager.attempt.epoch_tracker import EpochSummary


class EpochLog:
    """Appends to the file that the environment names; does nothing without one."""

    def __init__(self) -> None:
        self._path = os.environ.get("PENSTOCK_EPOCH_LOG")

    def write(self, summary: EpochSummary, started_ms: int, finished_ms: int) -> None:
        """Append a line for a committed epoch."""
        if self._path is None:
            return
        line = {
            "epoch": summary.epoch,
            "rows": summary.rows_in,
            "rows_out": summary.rows_out,
            "started_ms": started_ms,
            "finished_ms": finished_ms,
            "checkpoint": summary.checkpoint,
        }
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
