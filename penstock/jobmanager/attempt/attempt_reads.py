"""Queries of the live state of one attempt: each key is read from the TaskManager that owns its key group.

All keys of a query are read at the end of one epoch, the last one that the job has finished. A subtask may be ahead of
it by one epoch, never by more: the next one begins only when all have finished. All TaskManagers are asked at once,
over connections that are kept for the next query.
"""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import msgspec

from penstock.clock import Clock
from penstock.control.state_query import (
    MAX_ANSWER_BYTES,
    RETRY_AFTER_S,
    QueryKeys,
    StateAnswer,
    StateQuery,
    namespace_of,
    not_ready,
    split_array,
)
from penstock.errors import (
    ConnectionLostError,
    PenstockError,
    RequestRefusedError,
    RpcError,
    StaleAttemptError,
    StateAccessError,
    StateLostError,
    UnsupportedValueError,
)
from penstock.graph.execution_graph import ExecutionGraph
from penstock.graph.job_graph import StagePlan
from penstock.jobmanager.attempt.epoch_tracker import EpochTracker
from penstock.model.ids import StageId, SubtaskId
from penstock.model.key_groups import subtask_of
from penstock.runtime.process.messages import Hello, ListStates, LiveState, LiveStates, ReadState, Register, StateValues
from penstock.runtime.process.rpc import connect, raise_refusal, receive, send

ANSWER_LIMIT_S = 5.0
"""For one answer of a TaskManager."""
WAIT_S = 2.0
"""How long a query waits for an epoch that has ended in a subtask to end in the job."""
NULL = msgspec.Raw(b"null")


@dataclass(frozen=True)
class _Part:
    """What one subtask is asked for."""

    subtask: SubtaskId
    positions: tuple[int, ...] = ()
    """Of its keys in the query."""


class AttemptReads:
    """Reads the state of an attempt whose subtasks have loaded it. Any thread."""

    def __init__(
        self,
        tracker: EpochTracker,
        execution: ExecutionGraph,
        registered: Sequence[Register],
        hello: Hello,
        clock: Clock,
    ) -> None:
        self._tracker = tracker
        self._graph = execution.job
        self._owners = execution.owners
        self._links = {r.taskmanager: _Links((r.host, r.tcp_port), hello) for r in registered}
        self._clock = clock

    def states(self) -> list[LiveState]:
        """The keyed states that functions have declared."""
        found: dict[tuple[str, str], LiveState] = {}
        for links in self._links.values():
            with _as_not_ready():
                with links.link() as link:
                    send(link, ListStates())
                    answer = receive(link)
                raise_refusal(answer)
                assert isinstance(answer, LiveStates)
                found.update({(state.info.operator_uid, state.info.name): state for state in answer.states})
        return [*found.values()]

    def read(self, state: LiveState, query: StateQuery) -> StateAnswer:
        """The answer at the end of the last finished epoch."""
        stage = self._stage_of(state.info.operator_uid)
        namespace_of(state.info, query.namespace)
        parts = self._route(state, stage, query)
        deadline_s = self._clock.monotonic_s() + WAIT_S
        while self._tracker.failure is None:
            epoch = self._tracker.finished.epoch
            found = self._ask_all(state, parts, query, epoch)
            if found is not None:
                return _scanned(found, query.limit, epoch) if query.limit else _looked_up(parts, found, query, epoch)
            left_s = deadline_s - self._clock.monotonic_s()
            if left_s <= 0 or not self._tracker.wait_for_epoch_after(epoch, left_s):
                break
        if self._tracker.failure is not None:
            raise not_ready("the job recovers from a failure")
        raise RequestRefusedError(503, "EPOCH_ENDS", "an epoch is being finished; try again", RETRY_AFTER_S)

    def close(self) -> None:
        """End the connections."""
        for links in self._links.values():
            links.close()

    def _stage_of(self, operator: str) -> StagePlan:
        for stage in self._graph.stages:
            if any(plan.uid == operator for plan in stage.operators):
                return stage
        raise RequestRefusedError(404, "NO_STATE", f"the job has no operator {operator!r}")

    def _route(self, state: LiveState, stage: StagePlan, query: StateQuery) -> list[_Part]:
        if query.limit:
            return [_Part(SubtaskId(StageId(stage.id), index)) for index in range(stage.parallelism)]
        keys = QueryKeys.of(state.info, query.keys)
        hashes = keys.codec.hash_batch(keys.codec.encode(keys.keys)).tolist()
        owners: dict[int, list[int]] = {}
        for position, key_hash in enumerate(hashes):
            group = key_hash % stage.max_parallelism
            owners.setdefault(subtask_of(group, stage.max_parallelism, stage.parallelism), []).append(position)
        return [_Part(SubtaskId(StageId(stage.id), index), tuple(found)) for index, found in owners.items()]

    def _ask_all(self, state: LiveState, parts: list[_Part], query: StateQuery, epoch: int) -> list[StateValues] | None:
        """The answers of all subtasks at one epoch; None if one of them cannot be read at it."""
        answers: list[StateValues] = []
        for asked in self._rounds(parts):
            round_answers = self._ask([_request(state, part, query, epoch) for part in asked])
            if any(answer.values is None for answer in round_answers):
                return None
            answers += round_answers
            if sum(len(answer.values or b"") for answer in answers) > MAX_ANSWER_BYTES:
                if not query.limit:
                    text = f"the answer is longer than {MAX_ANSWER_BYTES} bytes; ask for fewer keys"
                    raise RequestRefusedError(413, "ANSWER_TOO_LARGE", text)
                return [*answers, StateValues(b"[]", more=True)]
        return answers

    def _rounds(self, parts: list[_Part]) -> Iterator[list[_Part]]:
        """The parts so that no TaskManager is asked twice at the same time. In their order, as answers are."""
        waiting: list[_Part] = []
        busy: set[str] = set()
        for part in parts:
            owner = self._owners[part.subtask]
            if owner in busy:
                yield waiting
                waiting, busy = [], set()
            waiting.append(part)
            busy.add(owner)
        if waiting:
            yield waiting

    def _ask(self, requests: list[ReadState]) -> list[StateValues]:
        """Send all requests, then take all answers."""
        with _as_not_ready():
            with ExitStack() as stack:
                links = [stack.enter_context(self._links[self._owners[r.subtask]].link()) for r in requests]
                for request, link in zip(requests, links, strict=True):
                    send(link, request)
                answers = [receive(link) for link in links]
            for answer in answers:
                raise_refusal(answer)
        return answers


def _request(state: LiveState, part: _Part, query: StateQuery, epoch: int) -> ReadState:
    keys = b"[" + b",".join(query.keys[position] for position in part.positions) + b"]"
    info, limit = state.info, query.limit
    return ReadState(part.subtask, epoch, info.operator_uid, info.name, keys, query.namespace, limit, MAX_ANSWER_BYTES)


def _looked_up(parts: list[_Part], found: list[StateValues], query: StateQuery, epoch: int) -> StateAnswer:
    values: list[msgspec.Raw] = [NULL] * len(query.keys)
    for part, answer in zip(parts, found, strict=True):
        for position, value in zip(part.positions, split_array(answer.values or b"[]"), strict=True):
            values[position] = value
    return StateAnswer(values, epoch)


def _scanned(found: list[StateValues], limit: int, epoch: int) -> StateAnswer:
    entries = [entry for answer in found for entry in split_array(answer.values or b"[]")]
    more = len(entries) > limit or any(answer.more for answer in found)
    return StateAnswer(entries[:limit], epoch, more=more)


class _Links:
    """Connections to one TaskManager, reused by one query after the other."""

    def __init__(self, address: tuple[str, int], hello: Hello) -> None:
        self._address = address
        self._hello = hello
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []

    def _take(self) -> socket.socket:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        link = connect(self._address)
        try:
            link.settimeout(ANSWER_LIMIT_S)
            send(link, self._hello)
            raise_refusal(receive(link))
        except BaseException:
            link.close()
            raise
        return link

    @contextmanager
    def link(self) -> Iterator[socket.socket]:
        """A connection for one question; after an error it is not used again."""
        link = self._take()
        try:
            yield link
        except BaseException:
            link.close()
            raise
        with self._lock:
            self._idle.append(link)

    def close(self) -> None:
        """Close the idle ones; those in use end with the TaskManager."""
        with self._lock:
            for link in self._idle:
                with suppress(OSError):
                    link.close()
            self._idle.clear()


@contextmanager
def _as_not_ready() -> Iterator[None]:
    """A TaskManager that does not answer is one that the job is about to replace."""
    try:
        yield
    except (ConnectionLostError, StaleAttemptError, StateLostError, RpcError, OSError) as error:
        raise not_ready(f"a TaskManager does not answer: {type(error).__name__}") from error
    except StateAccessError as error:
        raise RequestRefusedError(409, "NOT_QUERYABLE", str(error)) from error
    except UnsupportedValueError as error:
        raise RequestRefusedError(413, "ANSWER_TOO_LARGE", str(error)) from error
    except PenstockError as error:
        raise RequestRefusedError(400, "BAD_REQUEST", str(error)) from error
