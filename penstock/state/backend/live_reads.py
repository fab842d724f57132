"""What a backend offers to queries of live state, and what queries see of a stored value.

Queries are the only readers on threads other than the epochs' thread. `penstock.runtime.state_reads` calls a backend
under a lock that `begin_epoch`, `finish_epoch` and `roll_back` hold too, so none of them happens during a call. State
accesses of the running epoch do happen meanwhile, and must not be visible.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from penstock.errors import UnsupportedValueError
from penstock.model.snapshot import StateTableInfo
from penstock.model.type_information import parse_type
from penstock.state.backend.map_keys import map_keys_of

MAX_ELEMENTS = 1_000_000
"""Of a list or map that a query reads: a larger one would hold up the epoch and fill the memory."""


@runtime_checkable
class LiveReads(Protocol):
    """Implemented by backends whose live state can be queried. Checkpoints of any backend can be.

    `before`: as it was when the running epoch began, or without one, before the last finished epoch. Otherwise: as it
    is, and then no epoch runs. None: this backend no longer has what it was before; the caller tries again later.
    """

    def read_live(self, name: str, addresses: Sequence[Any], *, before: bool) -> list[Any] | None:
        """What a declared state holds at each address, in its stored form; None where it holds nothing.

        An address is a state key, or for a state with namespaces a pair of state key and namespace. A map is a
        dictionary with stored map keys.
        """

    def list_live(self, name: str, limit: int, *, before: bool) -> list[Any] | None:
        """Up to `limit` addresses at which a declared state has entries, in any order."""


_LIGHT = frozenset({int, float, bool, tuple, type(None)})
TEXT_ELEMENT = 64
"""So many characters or bytes weigh as much as an element."""


def require_readable(count: int) -> None:
    """Raise if a list or map has more elements than a query reads."""
    if count > MAX_ELEMENTS:
        raise UnsupportedValueError(
            f"a list or map has more than {MAX_ELEMENTS} elements, and a query reads no larger one",
            "ask for other keys, or look into a checkpoint with `penstock state`",
        )


def element_count(value: Any) -> int:
    """How much a stored value weighs, in elements of a list or map."""
    if isinstance(value, list | dict):
        return 1 + len(value)
    return 1 + len(value) // TEXT_ELEMENT if isinstance(value, str | bytes) else 1


def largest_count(values: Sequence[Any]) -> int:
    """How much the heaviest of some stored values weighs, in elements of a list or map."""
    return 1 if _LIGHT.issuperset(map(type, values)) else max(map(element_count, values))


def visible(info: StateTableInfo, ttl_ms: int, now_ms: int) -> Callable[[Any], Any] | None:
    """Makes the value that queries see of a stored one: without stamps, without what has expired; None: nothing left.

    None instead of a function: the stored value is what they see.
    """
    to_user = None if info.map_key_type is None else map_keys_of(parse_type(info.map_key_type)).to_user
    if info.kind == "map":
        if info.ttl:
            return lambda entries: _live_map(entries, to_user, now_ms - ttl_ms)
        return None if to_user is None else lambda entries: {to_user(key): value for key, value in entries.items()}
    if not info.ttl:
        return None
    if info.kind == "list":
        return lambda pairs: [value for stamp, value in pairs if stamp is None or stamp > now_ms - ttl_ms] or None
    return lambda pair: pair[1] if pair[0] is None or pair[0] > now_ms - ttl_ms else None


def _live_map(entries: dict[Any, Any], to_user: Callable[[Any], Any] | None, limit_ms: int) -> dict[Any, Any] | None:
    live = {
        key if to_user is None else to_user(key): pair[1]
        for key, pair in entries.items()
        if pair[0] is None or pair[0] > limit_ms
    }
    return live or None
