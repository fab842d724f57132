"""The names of all files in a job's folder: created and parsed here (PROTOCOL section 1).

    log/00000000000000000042                    entry of the job log
    chk-7/_metadata                             manifest of checkpoint 7
    chk-7/3-source-9f1c2a0b1c2d                 source position, written by attempt 3
    chk-7/3-s0-1-9f1c2a0b1c2d                   state of subtask s0/1 that only checkpoint 7 uses
    shared/3-7-s0-1-9f1c2a0b1c2d                the same, written for checkpoint 7, for later ones to refer to

Every name but a manifest's and a log entry's is unique by its nonce. Attempt and checkpoint in it are what garbage
collection goes by (PROTOCOL R22). A name followed by `~` and a random part is the leftover of an interrupted write.
"""

import re
from dataclasses import dataclass
from enum import Enum

from penstock.model.ids import StageId, SubtaskId, new_nonce
from penstock.storage.paths import TEMPORARY_MARK

LOG_FOLDER = "log/"
CHECKPOINT_FOLDERS = "chk-"
SHARED_FOLDER = "shared/"

_NUMBER = r"(0|[1-9][0-9]{0,18})"
_NONCE = r"([0-9a-z]{1,64})"
_STAGE = r"([A-Za-z0-9_.]{1,64})"
_LOG = re.compile(r"log/([0-9]{20})")
_METADATA = re.compile(rf"chk-{_NUMBER}/_metadata")
_SOURCE = re.compile(rf"chk-{_NUMBER}/{_NUMBER}-source-{_NONCE}")
_EXCLUSIVE = re.compile(rf"chk-{_NUMBER}/{_NUMBER}-{_STAGE}-{_NUMBER}-{_NONCE}")
_SHARED = re.compile(rf"shared/{_NUMBER}-{_NUMBER}-{_STAGE}-{_NUMBER}-{_NONCE}")


class FileKind(Enum):
    """What a file of the job's folder is."""

    LOG = "log entry"
    METADATA = "manifest"
    SOURCE = "source position"
    STATE = "state"


@dataclass(frozen=True)
class FileName:
    """A parsed name. `number` is that of the checkpoint or of the log entry."""

    kind: FileKind
    number: int
    attempt: int | None = None
    subtask: SubtaskId | None = None
    temporary: bool = False


def log_entry_path(number: int) -> str:
    """The name of a log entry.

    >>> log_entry_path(42)
    'log/00000000000000000042'
    """
    return f"{LOG_FOLDER}{number:020d}"


def metadata_path(checkpoint_id: int) -> str:
    """The name of a checkpoint's manifest, the only name that two attempts may both try to write."""
    return f"{CHECKPOINT_FOLDERS}{checkpoint_id}/_metadata"


def source_file_path(attempt: int, checkpoint_id: int, nonce: str | None = None) -> str:
    """A new name for the source position of a checkpoint."""
    return _checked(f"{CHECKPOINT_FOLDERS}{checkpoint_id}/{attempt}-source-{nonce or new_nonce()}")


def state_file_path(attempt: int, checkpoint_id: int, subtask: SubtaskId, nonce: str | None = None) -> str:
    """A new name for state that later checkpoints may share.

    >>> state_file_path(3, 7, SubtaskId(StageId("s0"), 1), nonce="9f1c2a0b1c2d")
    'shared/3-7-s0-1-9f1c2a0b1c2d'
    """
    return _checked(f"{SHARED_FOLDER}{attempt}-{checkpoint_id}-{subtask.stage}-{subtask.index}-{nonce or new_nonce()}")


def parse_name(path: str) -> FileName | None:
    """The parsed name; None for a file that is not part of a job's folder.

    >>> parse_name("shared/3-7-s0-1-9f1c2a0b1c2d").attempt
    3
    >>> parse_name("chk-7/notes.txt") is None
    True
    """
    name, mark, rest = path.partition(TEMPORARY_MARK)
    if mark and not rest:
        return None
    temporary = bool(mark)
    if found := _LOG.fullmatch(name):
        return FileName(FileKind.LOG, int(found[1]), temporary=temporary)
    if found := _METADATA.fullmatch(name):
        return FileName(FileKind.METADATA, int(found[1]), temporary=temporary)
    if found := _SOURCE.fullmatch(name):
        return FileName(FileKind.SOURCE, int(found[1]), int(found[2]), temporary=temporary)
    if found := _EXCLUSIVE.fullmatch(name):
        return _state_name(found[1], found[2], (found[3], found[4]), temporary=temporary)
    if found := _SHARED.fullmatch(name):
        return _state_name(found[2], found[1], (found[3], found[4]), temporary=temporary)
    return None


def checkpoint_of(path: str) -> int | None:
    """The checkpoint in a name; also in that of a foreign file in a checkpoint's folder."""
    name = parse_name(path)
    if name is not None and name.kind is not FileKind.LOG:
        return name.number
    folder = re.match(rf"chk-{_NUMBER}/", path)
    return int(folder[1]) if folder else None


def _state_name(checkpoint: str, attempt: str, place: tuple[str, str], *, temporary: bool) -> FileName:
    subtask = SubtaskId(StageId(place[0]), int(place[1]))
    return FileName(FileKind.STATE, int(checkpoint), int(attempt), subtask, temporary)


def _checked(path: str) -> str:
    """The path, if it can be parsed again: with a dash in a stage's name it could not."""
    if parse_name(path) is None:
        raise ValueError(f"{path!r} is not a file name that can be read back; stage names have letters and digits only")
    return path
