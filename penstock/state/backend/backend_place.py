"""The operator and subtask that a backend keeps state for."""

from dataclasses import dataclass
from pathlib import Path

from penstock.codec.keys import KeyCodec


@dataclass(frozen=True)
class BackendPlace:
    """One operator in one subtask, and what the subtask provides for its backend."""

    operator_uid: str
    key_codec: KeyCodec
    max_parallelism: int
    key_groups: tuple[int, int]
    """First and last, inclusive."""
    folder: Path = Path()
    """A folder of this process for files. All backends of the process share it, so choose a unique name below it."""
    incremental: bool = True
    """Whether checkpoints should hold only what changed since the previous one, if the backend supports that."""
