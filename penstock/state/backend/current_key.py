"""The key, and for states with namespaces the namespace, whose state the handles of one operator read and write."""

from typing import Any

from penstock.errors import StateAccessError


class NoKey:
    """A placeholder for a key that is not set. Hashing it raises, so that no state access pays for a check."""

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def __hash__(self) -> int:
        raise StateAccessError(self._problem)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return "<no key>"


NO_KEY = NoKey(
    "keyed state was used where there is no current key; use it in the functions that process records and timers, on "
    "their own thread, not in open(), close() or the constructor"
)
NO_NAMESPACE = NoKey("a state with namespaces was used where no namespace is set for the current key")


class CurrentKey:
    """Set by the runtime for each record and timer; read by every handle at every access."""

    __slots__ = ("_nothing", "key")

    key: Any
    """The state key, as the operator's KeyCodec makes it; for states with namespaces a pair of key and namespace."""

    def __init__(self, nothing: NoKey = NO_KEY) -> None:
        self._nothing = nothing
        self.clear()

    def clear(self) -> None:
        """Leave the key context."""
        self.key = self._nothing
