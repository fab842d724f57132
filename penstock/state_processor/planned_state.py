"""One state of a savepoint to write."""

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from penstock.checkpoint.snapshot.stored_snapshot import KeyedState, State
from penstock.model.snapshot import OperatorStateInfo, StateTableInfo

Place = tuple[str, str, str]
"""Operator uid, mode ("keyed", or that of an operator state) and name."""


@dataclass(frozen=True)
class PlannedState:
    """A state kept from the loaded snapshot, or one made from a DataFrame."""

    info: StateTableInfo | OperatorStateInfo
    """Its description in the manifest. The count of an operator state is filled in when it is written."""
    ttl_ms: int = 0
    state: State | None = None
    """The state of the loaded snapshot, under its old name."""
    stored: Any = None
    """A DataFrame of stored columns; for keyed state it has the hashes of the keys too."""
    shown: Any = None
    """The user's DataFrame."""

    @staticmethod
    def kept(state: State) -> "PlannedState":
        """A state of the loaded snapshot, unchanged."""
        return PlannedState(state.info, state.ttl_ms if isinstance(state, KeyedState) else 0, state)

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def place(self) -> Place:
        """Its operator uid, mode and name."""
        mode = self.info.mode if isinstance(self.info, OperatorStateInfo) else "keyed"
        return self.info.operator_uid, mode, self.info.name

    def renamed(self, uid: str) -> "PlannedState":
        """The same state of another operator."""
        return replace(self, info=msgspec.structs.replace(self.info, operator_uid=uid))
