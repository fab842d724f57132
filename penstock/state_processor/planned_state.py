"""One state of a savepoint that is to be written."""

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from penstock.checkpoint.snapshot.stored_snapshot import KeyedState, State
from penstock.model.snapshot import OperatorStateInfo, StateTableInfo

Place = tuple[str, str, str]
"""Operator uid, mode ("keyed", or that of an operator state) and name."""


@dataclass(frozen=True)
class Planned:
    """A state of the loaded snapshot that is kept, or one that a DataFrame gives."""

    info: StateTableInfo | OperatorStateInfo
    """As it will be stored; the count of operator state is not kept up."""
    ttl_ms: int = 0
    state: State | None = None
    """Of the loaded snapshot, under its old name."""
    stored: Any = None
    """A DataFrame of stored columns; for keyed state with the hashes of keys."""
    shown: Any = None
    """The DataFrame that the user gave."""

    @staticmethod
    def kept(state: State) -> "Planned":
        """A state as it is."""
        return Planned(state.info, state.ttl_ms if isinstance(state, KeyedState) else 0, state)

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def place(self) -> Place:
        """Where it stands."""
        mode = self.info.mode if isinstance(self.info, OperatorStateInfo) else "keyed"
        return self.info.operator_uid, mode, self.info.name

    def renamed(self, uid: str) -> "Planned":
        """The same state of another operator."""
        return replace(self, info=msgspec.structs.replace(self.info, operator_uid=uid))
