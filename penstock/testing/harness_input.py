"""What a harness is fed: records, and control items between them."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from types import NoneType
from typing import Any


@dataclass(frozen=True)
class Watermark:
    """Event time has reached this timestamp."""

    timestamp: int


@dataclass(frozen=True)
class Advance:
    """Processing time moves on by so many milliseconds."""

    milliseconds: int


class Control:
    """An item that is no record."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


CHECKPOINT = Control("CHECKPOINT")
"""Take a checkpoint here and wait for it."""
CRASH = Control("CRASH")
"""Lose every process here and recover."""


class HarnessInput:
    """Everything that a harness was fed, in order: a source that can be replayed from a position."""

    def __init__(self, seed: int | None) -> None:
        """With a seed, records between two control items are divided at random places."""
        self._items: list[Any] = []
        self._random = random.Random(seed) if seed is not None else None
        self.position = 0
        """How many items have been read."""

    @property
    def is_read(self) -> bool:
        """Whether nothing is behind the position."""
        return self.position >= len(self._items)

    def extend(self, items: Iterable[Any]) -> None:
        """Add records and control items at the end."""
        self._items.extend(items)

    def read(self) -> tuple[list[Any], Any]:
        """The records up to the next control item, and that item or None; the position moves behind them."""
        records: list[Any] = []
        while not self.is_read:
            item = self._items[self.position]
            if isinstance(item, (Control, Watermark, Advance)):
                if records and item is not CHECKPOINT:
                    return records, None
                self.position += 1
                return records, item
            self.position += 1
            if item is not None:
                records.append(item)
            if self._random is not None and self._random.random() < 0.2:
                return records, None
        return records, None

    def pass_by(self) -> None:
        """The control item that was read last happens once: a replay passes it by."""
        self._items[self.position - 1] = None

    def read_batch(self) -> list[Any]:
        """The records that batch mode reads: all, or those before a crash. Other control items have no effect."""
        end = next((number for number, item in enumerate(self._items) if item is CRASH), len(self._items))
        return [item for item in self._items[:end] if not isinstance(item, (NoneType, Control, Watermark, Advance))]

    def take_crash(self) -> bool:
        """Whether batch mode is to crash, which happens once for each crash that was fed."""
        if CRASH not in self._items:
            return False
        self._items[self._items.index(CRASH)] = None
        return True
