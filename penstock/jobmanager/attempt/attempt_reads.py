"""Queries of the live state of one attempt: each key is read from the TaskManager that owns its key group.

All keys of a query are read at the end of one epoch, the last one that the job has finished. A subtask may be ahead of
it by one epoch, never by more: the next one begins only when all have finished. All TaskManagers are asked at once,
over connections that are kept for the next query.
"""

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

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
from penstock.model.key_groups import subtasks_of
from penstock.runtime.process.messages import Hello, ListStates, LiveState, LiveStates, ReadState, Register, StateValues
from penstock.runtime.process.rpc import MessageReader, connect, raise_refusal, send

ANSWER_LIMIT_S = 5.0
"""For one answer of a TaskManager."""
WAIT_S = 2.0
"""How long a query waits for an epoch that has ended in a subtask to end in the job."""
NULL = msgspec.Raw(b"null")


@dataclass(frozen=True)
class _Part:
    """What one subtask is asked for."""

    subtask: SubtaskId
    positions: Sequence[int] = ()
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
        self._links = {r.taskmanager: _Links(r, hello) for r in registered}
        self._clock = clock

    def states(self) -> list[LiveState]:
        """The keyed states that functions have declared."""
        found: dict[tuple[str, str], LiveState] = {}
        for links in self._links.values():
            with _as_not_ready():
                (answer,) = _exchange([(links, ListStates())])
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
        hashes = keys.codec.hash_keys(keys.keys)
        owners: dict[int, list[int]] = {}
        for position, owner in enumerate(subtasks_of(hashes, stage.max_parallelism, stage.parallelism).tolist()):
            if owner in owners:
                owners[owner].append(position)
            else:
                owners[owner] = [position]
        return [_Part(SubtaskId(StageId(stage.id), index), found) for index, found in owners.items()]

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
        with _as_not_ready():
            return _exchange([(self._links[self._owners[request.subtask]], request) for request in requests])


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


class _Link:
    """A connection to a TaskManager: a message, an answer, the next message."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(ANSWER_LIMIT_S)
        self._connection = connection
        self.receive = MessageReader(connection).receive

    def send(self, message: Any) -> None:
        """Send a message. Its answer must be received before the next one is sent."""
        send(self._connection, message)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


class _Links:
    """Connections to one TaskManager, reused by one query after the other."""

    def __init__(self, register: Register, hello: Hello) -> None:
        self._register = register
        self._hello = hello
        self._lock = threading.Lock()
        self._idle: list[_Link] = []

    def take(self) -> "_Link":
        """A connection for one message and its answer. Afterwards it is put back, or closed after an error."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        path = self._register.unix_path
        link = _Link(connect(path if os.path.exists(path) else (self._register.host, self._register.tcp_port)))
        try:
            link.send(self._hello)
            raise_refusal(link.receive())
        except BaseException:
            link.close()
            raise
        return link

    def put_back(self, link: "_Link") -> None:
        """Keep a connection for the next query."""
        with self._lock:
            self._idle.append(link)

    def close(self) -> None:
        """Close the idle ones; those in use end with the TaskManager."""
        with self._lock:
            for link in self._idle:
                with suppress(OSError):
                    link.close()
            self._idle.clear()


def _exchange(messages: list[tuple[_Links, Any]]) -> list[Any]:
    """Send all messages, each to another TaskManager, then take all answers."""
    taken: list[tuple[_Links, _Link]] = []
    try:
        for links, message in messages:
            link = links.take()
            taken.append((links, link))
            link.send(message)
        answers = [link.receive() for _, link in taken]
    except BaseException:
        for _, link in taken:
            link.close()
        raise
    for links, link in taken:
        links.put_back(link)
    for answer in answers:
        raise_refusal(answer)
    return answers


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
