"""Queries of a job's keyed state: what is asked, what is answered, and the limits of both."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from penstock.codec.keys import KeyCodec
from penstock.errors import InvalidKeyError, PenstockError, RequestRefusedError
from penstock.model.snapshot import StateSize, StateTableInfo
from penstock.model.type_information import parse_type
from penstock.runtime.process.messages import LiveState
from penstock.runtime.state_reads import key_of, state_keys

MAX_KEYS = 1_000
MAX_KEY_BYTES = 4096
MAX_ENTRIES = 10_000
"""Of one scan."""
MAX_ANSWER_BYTES = 8 << 20
MAX_QUERIES = 8
"""So many queries of live state run at a time, and so many of snapshots; others wait."""
ADMISSION_LIMIT_S = 1.0
"""How long they wait."""
RETRY_AFTER_S = 1
"""What clients are told that ask while a job cannot answer."""


@dataclass(frozen=True)
class StateQuery:
    """The values of keys, or the first entries of a state."""

    keys: tuple[bytes, ...] = ()
    """JSON."""
    namespace: bytes | None = None
    """JSON. None: all namespaces of the keys, where the state has any."""
    limit: int = 0
    """Instead of keys: the largest number of entries."""


@dataclass(frozen=True)
class StateAnswer:
    """The answer, and what it is an answer of."""

    values: Sequence[msgspec.Raw]
    """JSON: in the order of the keys, null where there is nothing; or the entries of a scan."""
    epoch: int
    checkpoint: int | None = None
    more: bool = False
    """A scan has left entries out."""


class LiveQueries(Protocol):
    """The live state of a job. Any thread may ask; RequestRefusedError with status 503 says when to ask again."""

    def states(self) -> list[LiveState]: ...
    def published(self, name: str) -> list[LiveState]: ...
    def sizes(self) -> list[StateSize]: ...
    def read(self, state: LiveState, query: StateQuery) -> StateAnswer: ...


class QueryAdmission:
    """Lets a few queries in at a time: whatever they wait for, threads are left for all other requests."""

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(MAX_QUERIES)

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Wait to be let in; RequestRefusedError with status 503 if that takes too long."""
        if not self._free.acquire(timeout=ADMISSION_LIMIT_S):
            raise RequestRefusedError(503, "BUSY", f"{MAX_QUERIES} queries of this job are running", RETRY_AFTER_S)
        try:
            yield
        finally:
            self._free.release()


def not_ready(why: str) -> RequestRefusedError:
    """The error for a job that cannot answer now, and can soon."""
    return RequestRefusedError(503, "NOT_READY", f"{why}; try again", RETRY_AFTER_S)


@dataclass(frozen=True)
class QueryKeys:
    """The keys of a query as state keys."""

    codec: KeyCodec
    given: tuple[bytes, ...]
    keys: list[Any]

    @classmethod
    def of(cls, info: StateTableInfo, given: tuple[bytes, ...]) -> "QueryKeys":
        """The keys, if they are of the state's type."""
        codec = codec_of(tuple(info.key_types))
        try:  # all at once, and one by one only for an error that names the wrong one
            keys = state_keys(codec, b"[" + b",".join(given) + b"]")
        except _WRONG_KEY:
            keys = [_state_key(codec, key) for key in given]
        return cls(codec, given, keys)


def namespace_of(info: StateTableInfo, given: bytes | None) -> Any:
    """The namespace of a query in its stored form; None if it names none."""
    if given is None:
        return None
    if info.namespace is None:
        raise RequestRefusedError(400, "NO_NAMESPACES", f"state {info.name!r} has no namespaces")
    return _state_key(codec_of((info.namespace,)), given)


def check_query(query: StateQuery) -> None:
    """Raise unless the query is within the limits."""
    if len(query.keys) > MAX_KEYS:
        raise RequestRefusedError(
            413, "TOO_MANY_KEYS", f"{len(query.keys)} keys; a query may have {MAX_KEYS}, split it"
        )
    if max(map(len, (*query.keys, query.namespace or b""))) > MAX_KEY_BYTES:
        raise RequestRefusedError(413, "KEY_TOO_LARGE", f"a key or namespace may have {MAX_KEY_BYTES} bytes as JSON")
    if query.limit > MAX_ENTRIES:
        raise RequestRefusedError(400, "LIMIT_TOO_LARGE", f"limit {query.limit}; a scan has at most {MAX_ENTRIES}")
    if bool(query.keys) == (query.limit > 0):
        raise RequestRefusedError(400, "BAD_REQUEST", "a query has either keys or a limit above 0")


def check_readable(info: StateTableInfo) -> None:
    """Raise for a state whose values clients cannot get: pickles are neither sent nor loaded."""
    if info.kind == "timer":
        raise RequestRefusedError(404, "NO_STATE", "timers cannot be queried")
    if parse_type(info.value_type).uses_pickle:
        raise RequestRefusedError(400, "NOT_READABLE", f"the values of state {info.name!r} are pickles, and never read")


def split_array(text: bytes) -> list[msgspec.Raw]:
    """The elements of a JSON array, as they are."""
    return msgspec.json.decode(text, type=list[msgspec.Raw])


@lru_cache(maxsize=256)
def codec_of(types: tuple[str, ...]) -> KeyCodec:
    """The codec of keys of these types."""
    return KeyCodec([parse_type(text) for text in types])


_WRONG_KEY = (PenstockError, msgspec.MsgspecError, InvalidKeyError, RecursionError, ValueError, TypeError)


def _state_key(codec: KeyCodec, given: bytes) -> Any:
    try:
        return codec.to_state_key(key_of(msgspec.json.decode(given)))
    except _WRONG_KEY as error:
        types = ", ".join(each.text for each in codec.types)
        text = given[:80].decode("utf-8", "replace")
        raise RequestRefusedError(400, "WRONG_KEY_TYPE", f"{text} is not a key of type {types}: {error}") from None
