"""Whose keyed state a backend keeps."""

from dataclasses import dataclass
from pathlib import Path

from penstock.codec.keys import KeyCodec


@dataclass(frozen=True)
class BackendPlace:
    """One operator in one subtask, and what the subtask offers its backend."""

    operator_uid: str
    key_codec: KeyCodec
    max_parallelism: int
    key_groups: tuple[int, int]
    """First and last, both included."""
    folder: Path = Path()
    """Of this process, for files; a backend keeps its own below it under a name that no other has."""
    incremental: bool = True
    """Checkpoints shall hold only what changed since the one before, if the backend can do that."""
