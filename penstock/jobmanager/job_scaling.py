"""The parallelism of a job over its attempts, which a rescale changes while the job runs (features E9).

A rescale takes a checkpoint while the job runs, so that little is left to write in the pause. Then the attempt ends as
if the job were suspended (PROTOCOL R32), with a last checkpoint, and the next attempt begins at the new parallelism.
Its claim records that parallelism. So a crash before the claim leaves a job at the old parallelism, and one after it a
job at the new one; to recovery both are an attempt that died after its last checkpoint.

If that attempt fails before it reads rows, the job goes back: the next claim records what the old attempts' claims did.
It starts from the same checkpoint, because the failed attempt has committed no epoch.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYetError
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.restore.program_fit import require_same_chains
from penstock.checkpoint.snapshot.manifest import load_manifest
from penstock.clock import Clock
from penstock.control.driver_log import DriverLog
from penstock.control.registry import RescaleRecord
from penstock.control.terminal import print_message
from penstock.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointMissingError,
    JobConflictError,
    JobFailedError,
    PenstockError,
    UsageError,
)
from penstock.graph.job_graph import JobGraph
from penstock.jobmanager.attempt.attempt import Attempt
from penstock.jobmanager.job_request import JobRequest
from penstock.model.execution import JobStatus
from penstock.storage.storage import Storage

POLL_S = 0.1
KEPT = 16


class ScaledAttempt(Protocol):
    """The attempt that runs."""

    def suspend(self) -> bool: ...
    def cancel(self) -> None: ...
    @property
    def waits_for_rows(self) -> bool: ...


@dataclass
class Rescale:
    """One change of the parallelism, from its request until the job reads rows again."""

    before: int
    graph: JobGraph
    """At the new parallelism."""
    why: str
    is_stopping: bool = False
    """The attempt at the old parallelism is ending."""
    is_switched: threading.Event = field(default_factory=threading.Event)
    """The next attempt begins."""
    replaced: tuple[JobGraph, int | None] | None = None
    """Since then: what the job had before, to go back to."""
    paused_at_s: float = 0.0
    checkpoint: int = 0
    future: "Future[RescaleRecord]" = field(default_factory=Future)


class JobScaling:
    """Thread safe. `graph` is that of the attempt that runs or begins."""

    def __init__(self, request: JobRequest, clock: Clock, log: DriverLog, storage: Storage | None) -> None:
        """`storage`: the job's checkpoint folder; None for a job without checkpoints, which is never rescaled."""
        self.graph = request.graph
        self.rescaled = request.rescaled
        self.last: RescaleRecord | None = None
        self._clock = clock
        self._log = log
        self._storage = storage
        self._timeout_s = request.settings.attempt_settings.timeout_ms / 1000
        self._lock = threading.Lock()
        self._current: Rescale | None = None
        self._has_ended = False
        self._history: deque[RescaleRecord] = deque(maxlen=KEPT)

    def figures(self) -> dict[str, Any]:
        """What the job's record says of rescales."""
        return {"rescale": self.last, "rescales": list(self._history)}

    # ---- the thread of the request

    def begin(self, parallelism: int, status: JobStatus, why: str) -> Rescale:
        """Begin to rescale. Raises UsageError if it cannot be done, JobConflictError if it cannot be done now."""
        graph = self._graph_at(parallelism)
        with self._lock:
            if self._current is not None:
                target = self._current.graph.default_parallelism
                raise JobConflictError(f"the job is being rescaled to {target}; try again when that has ended")
            if status is not JobStatus.RUNNING or self._has_ended:
                raise JobConflictError(f"the job is {status.name}: only a running job can be rescaled")
            self._current = Rescale(self.graph.default_parallelism, graph, why)
            return self._current

    def run(
        self,
        rescale: Rescale,
        take_checkpoint: Callable[[], object],
        attempt: Callable[[], ScaledAttempt | None],
    ) -> RescaleRecord:
        """Rescale. `attempt` returns the attempt that runs or ran last.

        If the last checkpoint of the old attempt takes longer than the timeout, the job goes back to the one before it
        and reads its last rows again.
        """
        with self._given_up_on_error(rescale):
            take_checkpoint()
            self._require_places_for_rows(rescale)
        target = rescale.graph.default_parallelism
        self._log.write("job", f"the job is rescaled from {rescale.before} to {target}: {rescale.why}")
        rescale.paused_at_s = self._clock.monotonic_s()
        rescale.is_stopping = True
        self._stop_attempts(rescale, attempt)
        while True:
            try:
                return rescale.future.result(POLL_S)
            except NotYetError:
                running = attempt()
                if running is not None and running.waits_for_rows:
                    self._resumed(rescale)

    def _stop_attempts(self, rescale: Rescale, attempt: Callable[[], ScaledAttempt | None]) -> None:
        """Return when the next attempt begins at the new parallelism, or the job has ended.

        If the running attempt fails just now, one at the old parallelism may have begun: it is stopped as well.
        """
        stopped: ScaledAttempt | None = None
        left_s = self._timeout_s
        while not (rescale.is_switched.is_set() or rescale.future.done()):
            running = attempt()
            if running is not None and running is not stopped:
                running.suspend()
                stopped, left_s = running, self._timeout_s
            elif running is not None and left_s <= 0:
                running.cancel()
            rescale.is_switched.wait(POLL_S)
            left_s -= POLL_S

    @contextmanager
    def _given_up_on_error(self, rescale: Rescale) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            with self._lock:
                self._current = None
                self._given_up(rescale, str(error))
            raise

    def _given_up(self, rescale: Rescale, failure: str) -> None:
        target, now_ms = rescale.graph.default_parallelism, self._clock.now_ms()
        self._history.append(RescaleRecord(rescale.before, target, 0, 0, now_ms, rescale.why, failure))
        self._log.write("job", f"the job was not rescaled to {target} ({rescale.why}): {failure}", level="WARN")

    def _graph_at(self, parallelism: int) -> JobGraph:
        graph = self.graph
        if graph.batch:
            raise UsageError("a batch job cannot be rescaled: it has no checkpoints to go on from")
        if self._storage is None:
            raise UsageError("a job without checkpoints cannot be rescaled: call env.enable_checkpointing(…)")
        if not 1 <= parallelism <= graph.max_parallelism:
            raise UsageError(
                f"parallelism {parallelism} is not between 1 and {graph.max_parallelism}, the job's max parallelism; "
                f"a higher max parallelism needs a new start from a savepoint"
            )
        if parallelism == graph.default_parallelism:
            raise UsageError(f"the job runs at parallelism {parallelism} already")
        assert graph.at_parallelism is not None, "the graph of a program can be built again"
        changed = graph.at_parallelism(parallelism)
        if [stage.parallelism for stage in changed.stages] == [stage.parallelism for stage in graph.stages]:
            raise UsageError("every operator of the job sets a parallelism of its own, which a rescale does not change")
        return changed

    # ---- the threads of the job

    def switch(self) -> JobGraph:
        """The graph for the attempt that begins. The old one if the last checkpoint cannot be restored at the new one.

        Raises StorageError if that cannot be found out: then the next attempt switches.
        """
        rescale = self._current
        if rescale is None or not rescale.is_stopping or rescale.is_switched.is_set():
            return self.graph
        try:
            self._require_places_for_rows(rescale)
        except JobConflictError as error:
            self._give_up(rescale, str(error), error)
            return self.graph
        with self._lock:
            if self._current is rescale:
                rescale.replaced = self.graph, self.rescaled
                self.graph = rescale.graph
                self.rescaled = rescale.graph.default_parallelism
                rescale.is_switched.set()
        return self.graph

    def _require_places_for_rows(self, rescale: Rescale) -> None:
        """Raise JobConflictError if the newest checkpoint has rows in flight to a stage that would no longer exist.

        Operators are chained at one parallelism and not at another if some of them set one of their own.
        """
        assert self._storage is not None, "checked when the rescale began"
        lineage = read_log(self._storage).lineage
        if not lineage:
            return
        try:
            manifest = load_manifest(self._storage, lineage[-1])
        except (CheckpointCorruptError, CheckpointMissingError):
            return  # the attempt says what becomes of a damaged checkpoint
        try:
            require_same_chains(manifest, [stage.uids for stage in rescale.graph.stages])
        except CheckpointError as error:
            raise JobConflictError(
                f"checkpoint {manifest.checkpoint_id} is unaligned and holds rows in flight to operators that run in "
                f"one stage at parallelism {rescale.before}, but not at {rescale.graph.default_parallelism}; try again "
                f"when the job has caught up, or give these operators the same parallelism"
            ) from error

    def restored(self, attempt: Attempt) -> None:
        """An attempt owns the job, and knows what it starts from."""
        rescale = self._current
        if rescale is not None and attempt.manifest is not None:
            rescale.checkpoint = attempt.manifest.checkpoint_id

    @property
    def is_untried(self) -> bool:
        """The attempt that runs or begins is the first one at its parallelism, and has not read rows yet."""
        rescale = self._current
        return rescale is not None and rescale.replaced is not None

    def go_back(self, error: PenstockError) -> bool:
        """An attempt has failed. True if the next one gets the old parallelism, because this one was the first at a new
        one and has read no rows. Whatever the reason was: the job ran at the old one.
        """
        rescale = self._current
        if rescale is None or rescale.replaced is None:
            return False
        target = rescale.graph.default_parallelism
        reason = f"its first attempt at parallelism {target} has failed: {error.summary}"
        failure = JobFailedError(f"the job goes back to parallelism {rescale.before}: {reason}")
        return self._give_up(rescale, reason, failure, back_to=rescale.replaced)

    def committed(self, rows: int) -> None:
        """An epoch is committed."""
        rescale = self._current
        if rescale is None or not rescale.is_stopping:
            return
        if rescale.is_switched.is_set():
            self._resumed(rescale)
        elif rows:
            rescale.paused_at_s = self._clock.monotonic_s()

    def end(self, reason: str) -> None:
        """The job has ended."""
        with self._lock:
            self._has_ended = True
            rescale = self._current
        if rescale is not None:
            self._give_up(rescale, reason, JobFailedError(f"the job was not rescaled: {reason}"))

    def _give_up(
        self, rescale: Rescale, reason: str, error: PenstockError, back_to: tuple[JobGraph, int | None] | None = None
    ) -> bool:
        """Who waits for the rescale gets the error. False if it was given up or done already."""
        with self._lock:
            if self._current is not rescale:
                return False
            self._current = None
            if back_to is not None:
                self.graph, self.rescaled = back_to
            self._given_up(rescale, reason)
        rescale.future.set_exception(error)
        return True

    def _resumed(self, rescale: Rescale) -> None:
        with self._lock:
            if self._current is not rescale:
                return
            self._current = None
            pause_ms = int(1000 * (self._clock.monotonic_s() - rescale.paused_at_s))
            target = rescale.graph.default_parallelism
            self.last = RescaleRecord(
                rescale.before, target, rescale.checkpoint, pause_ms, self._clock.now_ms(), rescale.why
            )
            self._history.append(self.last)
        self._log.write("job", f"the job was rescaled {self.last}")
        print_message(f"the job was rescaled {self.last}")
        rescale.future.set_result(self.last)
