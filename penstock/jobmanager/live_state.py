"""The live state of a job over its attempts, for queries."""

from collections.abc import Callable
from typing import Protocol

from penstock.control.state_query import QueryAdmission, StateAnswer, StateQuery, not_ready
from penstock.errors import RequestRefusedError
from penstock.jobmanager.attempt.attempt_reads import AttemptReads
from penstock.model.execution import JobStatus
from penstock.model.snapshot import StateSize
from penstock.runtime.process.messages import LiveState


class ReadableAttempt(Protocol):
    """An attempt, as queries see it."""

    @property
    def reads(self) -> AttemptReads | None: ...


class LiveJobState:
    """Passes queries to the attempt that runs, a few at a time. What a job cannot answer, it says when to ask again."""

    def __init__(
        self,
        attempt: Callable[[], ReadableAttempt | None],
        status: Callable[[], JobStatus],
        sizes: Callable[[], list[StateSize]],
    ) -> None:
        self._newest = attempt
        self._status = status
        self._sizes = sizes
        self._admission = QueryAdmission()
        self._known: list[LiveState] = []
        self._known_of: AttemptReads | None = None
        """The attempt in which these states are known."""

    def states(self) -> list[LiveState]:
        """The keyed states. While the job restarts, those of the last attempt."""
        try:
            with self._admission.admitted():
                reads = self._reads()
                self._known, self._known_of = reads.states(), reads
        except RequestRefusedError as error:
            if error.status != 503 or not self._known:
                raise
        return self._known

    def published(self, name: str) -> list[LiveState]:
        """The states that are queryable under a name. TaskManagers are asked only if none is known in this attempt."""
        attempt = self._newest()
        reads = attempt.reads if attempt is not None else None
        known = self._known if reads is not None and reads is self._known_of else self.states()
        found = [state for state in known if state.queryable == name]
        return found or [state for state in self.states() if state.queryable == name]

    def sizes(self) -> list[StateSize]:
        """The sizes of the states, as of the last checkpoint."""
        return self._sizes()

    def read(self, state: LiveState, query: StateQuery) -> StateAnswer:
        """The answer at the end of the last finished epoch."""
        with self._admission.admitted():
            return self._reads().read(state, query)

    def _reads(self) -> AttemptReads:
        status = self._status()
        if status.is_terminal_state():
            raise RequestRefusedError(
                409, "JOB_ENDED", f"the job is {status.name}: its checkpoints still have its state"
            )
        attempt = self._newest()
        reads = attempt.reads if attempt is not None else None
        if status is not JobStatus.RUNNING or reads is None:
            raise not_ready("the job is starting" if status is JobStatus.RUNNING else f"the job is {status.name}")
        return reads
