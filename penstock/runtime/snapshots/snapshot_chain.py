"""The files of a subtask's snapshot: the full state and deltas on top of it, so that a checkpoint is small.

When there are enough consecutive deltas of one level, the next one replaces them as a delta of the next level, as in a
counter with carry. So a change is rewritten only a few times, and the chain stays short. The new delta is not merged
from files: the state knows what has changed since each of the chain's checkpoints.
"""

from dataclasses import dataclass

from penstock.model.snapshot import NativeName, StateFile, files_of_format

MAX_DELTAS = 8
"""The maximum number of consecutive deltas of one level. The next one replaces them."""
MAX_FILES = 64


@dataclass(frozen=True)
class Layer:
    """The files of one delta, or of the full state, and the checkpoint that they complete."""

    files: tuple[StateFile, ...]
    checkpoint: int
    level: int = 0

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Chain:
    """The layers of one checkpoint: the full state and the deltas on top of it."""

    layers: tuple[Layer, ...]

    @property
    def files(self) -> list[StateFile]:
        """Oldest first."""
        return [file for layer in self.layers for file in layer.files]

    @property
    def is_native(self) -> bool:
        """Whether the files are native. They have no order, and the backend limits their number."""
        return bool(files_of_format(self.files, NativeName))

    @property
    def is_long(self) -> bool:
        """Whether the deltas are larger than the full state, or too many: time for a full file."""
        if self.is_native:
            return False
        deltas = sum(layer.size for layer in self.layers[1:])
        return deltas > self.layers[0].size or len(self.files) >= MAX_FILES

    def below(self) -> tuple["Chain", int]:
        """What the next delta builds on, and its level."""
        layers, level = list(self.layers), 0
        while not self.is_native and all(layer.level == level for layer in layers[1:][-MAX_DELTAS:]):
            if len(layers) <= MAX_DELTAS:
                break
            del layers[-MAX_DELTAS:]
            level += 1
        return Chain(tuple(layers)), level

    @property
    def checkpoint(self) -> int:
        """The checkpoint of the last layer."""
        return self.layers[-1].checkpoint
