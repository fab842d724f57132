"""The entries of the job log, and their form on disk (PROTOCOL section 2).

On disk an entry is one small JSON document: magic, version, the sha256 of the record, the record. The record carries
its number, a random entry id, the attempt that wrote it, and the entry.
"""

import hashlib
from typing import Literal, TypeAlias

import msgspec

from penstock.errors import LogCorruptError

MAGIC = "penstock-log"
FORMAT_VERSION = 1
MAX_ENTRY_BYTES = 16 * 1024 * 1024


class Claim(msgspec.Struct, frozen=True, tag="claim", tag_field="type", forbid_unknown_fields=True):
    """This JobManager owns the job now; every older attempt is fenced."""

    attempt: int
    token_hash: str
    writer: str
    name: str
    program: str
    parallelism: int
    max_parallelism: int
    plan: str = ""
    start_from: str = ""
    """The snapshot outside the job's folder that the job starts from, for an attempt that finds no `restore` yet."""
    rescaled: int | msgspec.UnsetType = msgspec.UNSET
    """The parallelism that a rescale has set; unset: that of the program and its flags."""


class Restore(msgspec.Struct, frozen=True, tag="restore", tag_field="type", forbid_unknown_fields=True):
    """What this attempt starts from: a checkpoint of this log, or the path of a snapshot outside the job's folder."""

    checkpoint: int | None
    path: str | None
    why: str
    claimed: bool = False
    """Restore mode CLAIM: the job owns the snapshot at the path, and deletes it when it no longer needs it."""
    sha256: str = ""
    """Of the manifest at the path, because another snapshot may be put there later."""


class Complete(msgspec.Struct, frozen=True, tag="complete", tag_field="type", forbid_unknown_fields=True):
    """The checkpoint exists."""

    checkpoint: int
    epoch: int
    metadata_path: str
    metadata_sha256: str


class Committing(msgspec.Struct, frozen=True, tag="committing", tag_field="type", forbid_unknown_fields=True):
    """From here on the checkpoint's output may be visible: restoring an older checkpoint may repeat it (R24)."""

    checkpoint: int


MAX_FILES_PER_DISCARD = 1000


class Discard(msgspec.Struct, frozen=True, tag="discard", tag_field="type", forbid_unknown_fields=True):
    """These checkpoints and files are no longer needed and may be deleted."""

    checkpoints: list[int]
    files: list[str]
    root: str = ""
    """Where the files are, if they belong to a claimed snapshot; empty: in the job's own folder.

    With a root and without files: nothing is left there that belongs to the job.
    """


class SavepointEntry(msgspec.Struct, frozen=True, tag="savepoint", tag_field="type", forbid_unknown_fields=True):
    """A savepoint was taken at the barrier of a checkpoint."""

    checkpoint: int
    path: str
    sha256: str


class Stopping(msgspec.Struct, frozen=True, tag="stopping", tag_field="type", forbid_unknown_fields=True):
    """No epoch starts after the barrier of this checkpoint.

    The other fields are what the next attempt needs to complete the stop (PROTOCOL R30).
    """

    checkpoint: int
    target: str = ""
    format: Literal["canonical", "native"] = "canonical"
    then: Literal["stop", "cancel"] = "stop"
    drain: bool = False
    trigger_id: str = ""


class Resumed(msgspec.Struct, frozen=True, tag="resumed", tag_field="type", forbid_unknown_fields=True):
    """The stop failed and the job goes on."""

    reason: str = ""


class Status(msgspec.Struct, frozen=True, tag="status", tag_field="type", forbid_unknown_fields=True):
    """How the attempt, or the job, has ended."""

    status: Literal["finished", "cancelled", "failed", "suspended"]
    reason: str = ""


class Base(msgspec.Struct, frozen=True, tag="base", tag_field="type", forbid_unknown_fields=True):
    """Summary of all entries before it: readers start here."""

    claim: Claim | None
    restore: Restore | None
    status: Status | None
    stopping: Stopping | None
    highest_checkpoint: int
    started: bool
    line: list[Complete]
    left_behind: list[Complete]
    open_deletes: list[str]
    entry_count: int
    commits_begun: int = -1
    confirmed: list[int] = []
    savepoint: SavepointEntry | None = None
    claimed: str | None = None
    claimed_sha256: str = ""


Entry: TypeAlias = (
    Claim | Restore | Complete | Committing | Discard | SavepointEntry | Stopping | Resumed | Status | Base
)

TERMINAL = ("finished", "cancelled", "failed")
"""After one of these statuses the job is over, and a claim must say that it reopens the job."""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry with its place in the log."""

    number: int
    entry_id: str
    attempt: int
    written_ms: int
    entry: Entry


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    magic: str
    version: int
    sha256: str
    record: msgspec.Raw


_record_decoder = msgspec.json.Decoder(Record)
_document_decoder = msgspec.json.Decoder(_Document)


def encode_record(record: Record) -> bytes:
    """The bytes of a log entry."""
    body = msgspec.json.encode(record)
    document = _Document(MAGIC, FORMAT_VERSION, hashlib.sha256(body).hexdigest(), msgspec.Raw(body))
    return msgspec.json.encode(document)


def decode_record(data: bytes, path: str) -> Record:
    """The record in the bytes of a log entry; raises LogCorruptError, which names the path."""
    if len(data) > MAX_ENTRY_BYTES:
        raise LogCorruptError(f"log entry {path!r} has {len(data)} bytes, more than {MAX_ENTRY_BYTES}")
    try:
        document = _document_decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise LogCorruptError(f"file {path!r} is not an entry of a job log: {error}") from error
    if document.magic != MAGIC or document.version != FORMAT_VERSION:
        found = f"{document.magic!r} version {document.version}"
        raise LogCorruptError(f"log entry {path!r} is {found}, this release reads {MAGIC!r} version {FORMAT_VERSION}")
    body = bytes(document.record)
    digest = hashlib.sha256(body).hexdigest()
    if digest != document.sha256:
        raise LogCorruptError(f"log entry {path!r} is damaged: its sha256 is {digest}, it says {document.sha256}")
    try:
        return _record_decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise LogCorruptError(f"log entry {path!r} holds no record: {error}") from error
