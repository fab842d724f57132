"""The key whose state the handles of one operator read and write."""

from typing import Any

from penstock.errors import StateAccessError


class CurrentKey:
    """Set by the runtime for each record and timer; read by every handle at every access.

    Outside a key context `key` is an object that cannot be hashed: any access to a state then raises StateAccessError,
    and no access pays for a check.
    """

    __slots__ = ("key",)

    key: Any
    """The state key, as the operator's KeyCodec makes it."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Leave the key context."""
        self.key = NO_KEY


class NoKey:
    """Stands for the key where there is none."""

    def __hash__(self) -> int:
        raise StateAccessError(
            "keyed state was used where there is no current key; use it in the functions that process records and "
            "timers, on their own thread, not in open(), close() or the constructor"
        )

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return "<no key>"


NO_KEY = NoKey()
