"""A job with any sinks, over all its drivers, and what must come out of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tests.faults.events import Load, batch_result, write_events
from tests.faults.failpoints import read_hits
from tests.faults.halts import halts_at, strike_all, strike_within
from tests.faults.jobs import JobProcess, Place
from tests.faults.kills import FINISH_LIMIT_S
from tests.faults.outcome import Row, compare, read_state
from tests.waiting import LIMIT_S, wait_until

SETTINGS = (("penstock.epoch.interval", "200 ms"),)


class SinkJob:
    """A job that reads files and writes to sinks, in the words of `tests/faults/ends.py`."""

    def __init__(
        self,
        folder: Path,
        sinks: str,
        load: Load,
        *,
        remote: str = "",
        settings: tuple[tuple[str, str], ...] = SETTINGS,
    ) -> None:
        """`settings` replace those of every such job."""
        events = folder / "events"
        write_events(load, events)
        self.expected = batch_result(events)
        self.log = folder / "failpoints.log"
        self.place = Place(folder / "job", events, sink=sinks, settings=settings, remote=remote)
        self.place.output.mkdir(parents=True, exist_ok=True)

    def take_larger_epochs(self, files: int) -> None:
        """How many files the next drivers read at a time; a checkpoint, and so a commit, has more rows."""
        settings = {**dict(self.place.settings), "penstock.epoch.max-files": str(files)}
        self.place = replace(self.place, settings=tuple(settings.items()))

    def start(self, armed: str = "") -> JobProcess:
        """One driver."""
        return JobProcess(self.place, PENSTOCK_FAILPOINT=armed, PENSTOCK_FAILPOINT_LOG=str(self.log))

    def die_at(self, *points: str) -> None:
        """One driver after the other is killed at these points."""
        for point in points:
            with self.start(point) as job:
                assert job.wait(FINISH_LIMIT_S) == -9, job.log_tail()
            assert point in read_hits(self.log)

    def strike_at(self, moments: Mapping[tuple[str, str], Sequence[int]]) -> None:
        """At each point, which a role passes so often, a worker, a TaskManager and in the end the driver are killed."""
        for (point, role), hits in moments.items():
            strike_all(self.start, self.log, halts_at(point, role, hits))

    def strike_within(self, is_within: Callable[[], bool], *victims: str) -> None:
        """One driver that is stopped in the middle of a commit for each victim."""
        with self.start() as job:
            for victim in victims:
                strike_within(job, is_within, victim)
                if victim != "driver":  # its death ends the attempt, but the commit goes on
                    wait_until(lambda: not is_within(), timeout_s=LIMIT_S)

    def finish(self) -> None:
        """Run a driver to the end of the job."""
        with self.start() as job:
            assert job.wait(FINISH_LIMIT_S) == 0, job.log_tail()
        self.place.fetch()

    def require_exact(self, rows: list[Row]) -> None:
        """Counts, sums, the XOR of ids and the running counts of every key are those of the oracle."""
        verdict = compare(self.expected, read_state(self.place.job_folder), rows)
        assert verdict.exact, verdict
