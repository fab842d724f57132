"""Reads of a subtask's live state by queries, beside the epochs.

A query names the last epoch that the job has finished. The subtask may be one epoch ahead: it runs the next one, or has
finished it while others have not, and that epoch may still be taken back. Then the query gets what was there before it.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from penstock.codec.json_text import json_array
from penstock.codec.tagged_json import from_plain, to_plain
from penstock.errors import StateAccessError, UnsupportedValueError
from penstock.model.snapshot import StateTableInfo
from penstock.model.type_information import parse_type
from penstock.runtime.process.messages import LiveState, ReadState, StateValues
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.live_reads import LiveReads, visible

CHUNK = 200
"""So many keys are read at a time: an epoch that begins or ends waits no longer than that."""
MAX_NAMESPACES = 100_000
"""Of a state with namespaces, so many entries are looked through for those of a key."""


class ReadGate:
    """Which epochs a subtask's state can be read at. An epoch holds it while it begins, finishes or is undone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: int | None = None
        """The epoch whose end the state is at; None while one runs."""
        self._before: int | None = None
        """The epoch whose end the state was at before the running or last finished one."""

    @contextmanager
    def moving(self, *, before: int | None, current: int | None) -> Iterator[None]:
        """Change the state; afterwards it can be read at these epochs. After an error it cannot be read at all."""
        with self._lock:
            self._before = self._current = None
            yield
            self._before, self._current = before, current

    @contextmanager
    def reading(self, epoch: int) -> Iterator[bool | None]:
        """Whether the state at the end of that epoch is the one `before`; None: it cannot be read at that epoch."""
        with self._lock:
            if epoch == self._current:
                yield False
            else:
                yield True if epoch == self._before else None


def declared_states(backends: Sequence[KeyedBackend]) -> list[LiveState]:
    """The keyed states of a subtask."""
    return [
        LiveState(info, backend.ttl.ttl_ms(info.name), backend.queryable_name(info.name))
        for backend in backends
        for info, _ in backend.declared()
    ]


def read_state(backend: KeyedBackend, gate: ReadGate, request: ReadState, now_ms: int) -> StateValues:
    """The answer to a query. An epoch that the subtask cannot be read at gives an answer without values."""
    if not isinstance(backend, LiveReads):
        raise StateAccessError(
            f"live state of the backend of operator {backend.operator_uid!r} cannot be queried; its checkpoints can"
        )
    info = backend.info(request.state)
    if info is None:  # a function of another subtask has declared it, and none of this one
        return StateValues(json_array([None] * len(msgspec.json.decode(request.keys))))
    if not backend.is_declared(request.state):
        raise StateAccessError(
            f"no function has declared the restored state {request.state!r} of operator {backend.operator_uid!r} yet"
        )
    reads = _Reads(backend, backend, gate, request, info)
    show = visible(info, backend.ttl.ttl_ms(info.name), now_ms)
    if request.scan > 0:
        return _scanned(reads, info, show)
    return _looked_up(reads, info, show)


class _Reads:
    """The stored values of one state at one epoch, read in portions."""

    def __init__(
        self, backend: KeyedBackend, live: LiveReads, gate: ReadGate, request: ReadState, info: StateTableInfo
    ) -> None:
        self.backend = backend
        self.request = request
        self._live = live
        self._gate = gate
        self._name = info.name

    def values(self, addresses: Sequence[Any]) -> list[Any] | None:
        """What is stored at these addresses; None if the state cannot be read at that epoch any more, or not yet."""
        found: list[Any] = []
        for start in range(0, len(addresses), CHUNK):
            with self._gate.reading(self.request.epoch) as before:
                if before is None:
                    return None
                part = self._live.read_live(self._name, addresses[start : start + CHUNK], before=before)
            if part is None:
                return None
            found += part
        return found

    def addresses(self, limit: int) -> list[Any] | None:
        """Up to `limit` addresses with entries."""
        with self._gate.reading(self.request.epoch) as before:
            return None if before is None else self._live.list_live(self._name, limit, before=before)


def _looked_up(reads: _Reads, info: StateTableInfo, show: Callable[[Any], Any] | None) -> StateValues:
    request, codec = reads.request, reads.backend.key_codec
    keys = [codec.to_state_key(key_of(key)) for key in msgspec.json.decode(request.keys)]
    if info.namespace is None:
        values = reads.values(keys)
        return StateValues(None) if values is None else StateValues(_texts(values, show, request.max_bytes))
    spaces = reads.backend.namespace_codec
    assert spaces is not None, "a state with namespaces is declared"
    if request.namespace is not None:
        namespace = spaces.to_state_key(key_of(msgspec.json.decode(request.namespace)))
        values = reads.values([(key, namespace) for key in keys])
        return StateValues(None) if values is None else StateValues(_texts(values, show, request.max_bytes))
    every = reads.addresses(MAX_NAMESPACES)
    if every is None:
        return StateValues(None)
    if len(every) >= MAX_NAMESPACES:
        raise UnsupportedValueError(f"state {info.name!r} has too many namespaces to find those of a key: name one")
    wanted = dict.fromkeys(keys)
    own = [address for address in every if address[0] in wanted]
    values = reads.values(own)
    if values is None:
        return StateValues(None)
    found: dict[Any, list[Any]] = {key: [] for key in keys}
    for (key, namespace), value in zip(own, values, strict=True):
        seen = value if show is None or value is None else show(value)
        if seen is not None:
            found[key].append([to_plain(spaces.to_user_key(namespace)), to_plain(seen)])
    return StateValues(_bounded([found[key] or None for key in keys], request.max_bytes))


def _scanned(reads: _Reads, info: StateTableInfo, show: Callable[[Any], Any] | None) -> StateValues:
    """[key, value] of every entry, or [key, namespace, value]."""
    codec, spaces, request = reads.backend.key_codec, reads.backend.namespace_codec, reads.request
    addresses = reads.addresses(request.scan + 1)
    values = None if addresses is None else reads.values(addresses)
    if addresses is None or values is None:
        return StateValues(None)
    entries: list[Any] = []
    size = 0
    for address, value in zip(addresses[: request.scan], values, strict=False):
        seen = value if show is None or value is None else show(value)
        if seen is None:
            continue
        if info.namespace is None:
            entry = [to_plain(codec.to_user_key(address)), to_plain(seen)]
        else:
            assert spaces is not None, "a state with namespaces is declared"
            key, namespace = address
            entry = [to_plain(codec.to_user_key(key)), to_plain(spaces.to_user_key(namespace)), to_plain(seen)]
        text = json_array(entry)
        size += len(text)
        if size > request.max_bytes:
            return StateValues(b"[" + b",".join(entries) + b"]", more=True)
        entries.append(text)
    return StateValues(b"[" + b",".join(entries) + b"]", more=len(addresses) > request.scan)


def key_of(given: Any) -> Any:
    """A user's key from JSON: plain values, an array for several columns, and marked values as in `tagged_json`."""
    return given if type(given) in (str, int) else from_plain(given)


def key_type_text(info: StateTableInfo) -> str:
    """The type of a state's keys, for messages."""
    return ", ".join(str(parse_type(text)) for text in info.key_types)


_PLAIN = frozenset({str, int, bool, type(None)})


def _texts(values: list[Any], show: Callable[[Any], Any] | None, max_bytes: int) -> bytes:
    if show is not None:
        values = [None if value is None else show(value) for value in values]
    if not _PLAIN.issuperset(map(type, values)):
        values = list(map(to_plain, values))
    return _bounded(values, max_bytes)


def _bounded(values: list[Any], max_bytes: int) -> bytes:
    text = json_array(values)
    if len(text) > max_bytes:
        raise UnsupportedValueError(f"the answer is longer than {max_bytes} bytes; ask for fewer keys")
    return text
