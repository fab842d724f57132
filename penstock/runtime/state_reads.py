"""Reads of a subtask's live state by queries, beside the epochs.

A query names the last epoch that the job has finished. The subtask may be one epoch ahead: it runs the next one, or has
finished it while others have not, and that epoch may still be taken back. Then the query gets what was there before it.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from penstock.codec.json_text import json_array
from penstock.codec.keys import KeyCodec
from penstock.codec.tagged_arrays import encode_array
from penstock.codec.tagged_json import from_plain, to_plain
from penstock.errors import StateAccessError, UnsupportedValueError
from penstock.model.snapshot import StateTableInfo
from penstock.runtime.process.messages import LiveState, ReadState, StateValues
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.live_reads import LiveReads, largest_count, visible

FIRST_PORTION, MAX_PORTION = 8, 200
"""So many keys are read at a time: an epoch that begins or ends waits no longer than that."""
PORTION_ELEMENTS = 100_000
"""The same for elements of lists and maps: after large ones fewer keys are read at a time."""
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

    def close(self) -> None:
        """Wait for a read that is running; from now on the state cannot be read."""
        with self.moving(before=None, current=None):
            pass

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
    reads = _Reads(backend, backend, gate, request, info, now_ms)
    return _scanned(reads, info) if request.scan > 0 else _looked_up(reads, info)


class _Reads:
    """What queries see of one state at one epoch, read in portions."""

    def __init__(
        self,
        backend: KeyedBackend,
        live: LiveReads,
        gate: ReadGate,
        request: ReadState,
        info: StateTableInfo,
        now_ms: int,
    ) -> None:
        self.backend = backend
        self.request = request
        self.is_gone = False
        """The state cannot be read at that epoch any more, or not yet."""
        self._live = live
        self._gate = gate
        self._name = info.name
        self._show = visible(info, backend.ttl.ttl_ms(info.name), now_ms)

    def portions(self, addresses: Sequence[Any]) -> Iterator[tuple[Sequence[Any], list[Any]]]:
        """Some addresses at a time, and what is seen there, so that a caller stops when it has enough.

        Ends early if the state `is_gone`.
        """
        start, size, show = 0, FIRST_PORTION, self._show
        while start < len(addresses):
            part = addresses[start : start + size]
            with self._gate.reading(self.request.epoch) as before:
                values = None if before is None else self._live.read_live(self._name, part, before=before)
            if values is None:
                self.is_gone = True
                return
            largest = largest_count(values)
            if show is not None:
                values = [None if value is None else show(value) for value in values]
            yield part, values
            start += size
            size = max(1, min(MAX_PORTION, 4 * size, PORTION_ELEMENTS // largest))

    def addresses(self, limit: int) -> Sequence[Any]:
        """Up to `limit` addresses with entries; none if the state `is_gone`."""
        with self._gate.reading(self.request.epoch) as before:
            found = None if before is None else self._live.list_live(self._name, limit, before=before)
        self.is_gone = found is None
        return found or ()


def _looked_up(reads: _Reads, info: StateTableInfo) -> StateValues:
    request, codec = reads.request, reads.backend.key_codec
    keys = state_keys(codec, request.keys)
    if info.namespace is None:
        return _values_at(reads, keys)
    spaces = reads.backend.namespace_codec
    assert spaces is not None, "a state with namespaces is declared"
    if request.namespace is None:
        return _values_in_all_namespaces(reads, info, keys, spaces)
    namespace = spaces.to_state_key(key_of(msgspec.json.decode(request.namespace)))
    return _values_at(reads, [(key, namespace) for key in keys])


def _values_at(reads: _Reads, addresses: Sequence[Any]) -> StateValues:
    texts: list[bytes] = []
    size = 1
    for _, values in reads.portions(addresses):
        texts.append(encode_array(values)[1:-1])
        size = _within(size + len(texts[-1]) + 1, reads.request.max_bytes)
    return StateValues(None if reads.is_gone else b"[" + b",".join(texts) + b"]")


def _values_in_all_namespaces(
    reads: _Reads, info: StateTableInfo, keys: Sequence[Any], spaces: KeyCodec
) -> StateValues:
    """For each key [namespace, value] of every namespace in which it has one."""
    every = reads.addresses(MAX_NAMESPACES)
    if len(every) >= MAX_NAMESPACES:
        raise UnsupportedValueError(f"state {info.name!r} has too many namespaces to find those of a key: name one")
    found: dict[Any, list[bytes]] = {key: [] for key in keys}
    size = 0
    for part, values in reads.portions([address for address in every if address[0] in found]):
        for (key, namespace), value in zip(part, values, strict=True):
            if value is not None:
                text = json_array([to_plain(spaces.to_user_key(namespace)), to_plain(value)])
                size = _within(size + len(text), reads.request.max_bytes)
                found[key].append(text)
    if reads.is_gone:
        return StateValues(None)
    texts = [b"[" + b",".join(found[key]) + b"]" if found[key] else b"null" for key in keys]
    _within(sum(map(len, texts)), reads.request.max_bytes)  # a key may be asked for twice
    return StateValues(b"[" + b",".join(texts) + b"]")


def _scanned(reads: _Reads, info: StateTableInfo) -> StateValues:
    """[key, value] of every entry, or [key, namespace, value]."""
    codec, spaces, request = reads.backend.key_codec, reads.backend.namespace_codec, reads.request
    addresses = reads.addresses(request.scan + 1)
    entries: list[bytes] = []
    size = 0
    for part, values in reads.portions(addresses[: request.scan]):
        for address, value in zip(part, values, strict=True):
            if value is None:
                continue
            if info.namespace is None:
                entry = [to_plain(codec.to_user_key(address)), to_plain(value)]
            else:
                assert spaces is not None, "a state with namespaces is declared"
                key, namespace = address
                entry = [to_plain(codec.to_user_key(key)), to_plain(spaces.to_user_key(namespace)), to_plain(value)]
            text = json_array(entry)
            size += len(text)
            if size > request.max_bytes:
                return StateValues(b"[" + b",".join(entries) + b"]", more=True)
            entries.append(text)
    if reads.is_gone:
        return StateValues(None)
    return StateValues(b"[" + b",".join(entries) + b"]", more=len(addresses) > request.scan)


def state_keys(codec: KeyCodec, given: bytes) -> list[Any]:
    """The state keys of a JSON array of users' keys."""
    keys = msgspec.json.decode(given)
    if not _PLAIN_KEYS.issuperset(map(type, keys)):
        keys = list(map(key_of, keys))
    return codec.to_state_keys(keys)


def key_of(given: Any) -> Any:
    """A user's key from JSON: plain values, an array for several columns, and marked values as in `tagged_json`."""
    return given if type(given) in _PLAIN_KEYS else from_plain(given)


_PLAIN_KEYS = frozenset({str, int})


def _within(size: int, max_bytes: int) -> int:
    if size > max_bytes:
        raise UnsupportedValueError(f"the answer is longer than {max_bytes} bytes; ask for fewer keys")
    return size
