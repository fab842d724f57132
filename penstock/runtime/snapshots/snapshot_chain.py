"""The files of a subtask's snapshot: everything, and deltas on top of it, so that a checkpoint costs what has changed.

Deltas of one level in a row are merged into one of the next level when there are enough of them, as a counter carries:
a change is written again a few times only, and the chain stays short. A merged delta is not made from the files of the
others but from the state, which knows what has changed since each of the chain's checkpoints.
"""

from dataclasses import dataclass

from penstock.model.snapshot import NativeName, StateFile, files_of_format

MAX_DELTAS = 8
"""So many deltas of one level stand in a row; the next one takes their place."""
MAX_FILES = 64


@dataclass(frozen=True)
class Layer:
    """The files of one delta, or of everything, and the checkpoint that they bring the chain up to."""

    files: tuple[StateFile, ...]
    checkpoint: int
    level: int = 0

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Chain:
    """The layers of one checkpoint: the first holds everything, the others what changed since."""

    layers: tuple[Layer, ...]

    @property
    def files(self) -> list[StateFile]:
        """Oldest first."""
        return [file for layer in self.layers for file in layer.files]

    @property
    def is_native(self) -> bool:
        """Files of a backend's own, which are not in any order: the backend sees to their number."""
        return bool(files_of_format(self.files, NativeName))

    @property
    def is_long(self) -> bool:
        """Deltas outweigh the state they build on, or there are many: time for a full file."""
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
        """What the chain's last layer brings it up to."""
        return self.layers[-1].checkpoint
