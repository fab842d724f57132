"""From all acks to a checkpoint that exists: the manifest, and the `complete` in the log (PROTOCOL R2, R18, R20)."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock import failpoint
from penstock.checkpoint.checkpoint_settings import WriterIdentity
from penstock.checkpoint.file_names import metadata_path, parse_name
from penstock.checkpoint.log.entries import Complete
from penstock.checkpoint.log.job_log import RECENT_S, JobLog
from penstock.checkpoint.pending_checkpoint import PendingCheckpoint
from penstock.checkpoint.snapshot.manifest import FORMAT_VERSION, MAGIC, digest, encode_manifest, file_paths
from penstock.errors import CheckpointError
from penstock.model.snapshot import CheckpointAck, Committable, Manifest, SourcePosition
from penstock.storage.certain_put import put_certain


@dataclass(frozen=True)
class Predecessor:
    """The newest completed checkpoint of the line at the append."""

    checkpoint_id: int | None
    epoch: int


def build_manifest(
    pending: PendingCheckpoint,
    acks: Sequence[CheckpointAck],
    identity: WriterIdentity,
    last: Predecessor,
    committables: Sequence[Committable],
) -> Manifest:
    """The manifest of a checkpoint whose acks are all there and whose epoch is committed."""
    record = pending.record
    assert record is not None, "a checkpoint is completed only after its epoch"
    if record.source is None:
        raise CheckpointError(f"epoch {record.epoch} was committed without the source position of its checkpoint")
    return Manifest(
        magic=MAGIC,
        format_version=FORMAT_VERSION,
        job_id=identity.job_id,
        checkpoint_id=pending.checkpoint_id,
        attempt=identity.attempt,
        writer=identity.writer,
        epoch=record.epoch,
        now_ms=record.now_ms,
        parent=last.checkpoint_id,
        max_parallelism=record.max_parallelism,
        watermarks=dict(record.watermarks),
        max_timestamps=dict(record.max_timestamps),
        subtasks=[ack.snapshot for ack in acks],
        sources=record.source,
        committables=list(committables),
        final=record.final,
    )


def first_manifest(
    checkpoint_id: int, identity: WriterIdentity, source: SourcePosition, now_ms: int, max_parallelism: int
) -> Manifest:
    """The manifest of the checkpoint before the first epoch: no state, the sources' initial positions (R23)."""
    return Manifest(
        magic=MAGIC,
        format_version=FORMAT_VERSION,
        job_id=identity.job_id,
        checkpoint_id=checkpoint_id,
        attempt=identity.attempt,
        writer=identity.writer,
        epoch=0,
        now_ms=now_ms,
        parent=None,
        max_parallelism=max_parallelism,
        watermarks={},
        max_timestamps={},
        subtasks=[],
        sources=source,
        committables=[],
    )


def require_own_files(manifest: Manifest, base: Manifest | None, log: JobLog) -> None:
    """Return if every file of the manifest is one that it may name; raise CheckpointError otherwise.

    A file is either written for this checkpoint, or one of the checkpoint its subtasks were told to build on. None is
    under a `discard` (PROTOCOL R18, I-11), and all are there.
    """
    inherited = file_paths(base) if base is not None else set()
    needed = file_paths(manifest)
    number = manifest.checkpoint_id
    for path in sorted(needed - inherited):
        name = parse_name(path)
        if name is None or (name.attempt, name.number) != (manifest.attempt, number):
            raise CheckpointError(f"checkpoint {number} names {path!r}, which is neither its own nor of its base")
    discarded = (needed | {metadata_path(number)}).intersection(log.view().open_deletes)
    if discarded:
        raise CheckpointError(f"checkpoint {number} names {min(discarded)!r}, which is discarded")
    missing = needed.difference(log.storage.list("")) if needed else set()
    if missing:
        log.check_fenced()  # PROTOCOL R4: a newer attempt may have deleted it
        raise CheckpointError(f"checkpoint {number} names {min(missing)!r}, which is not in {log.storage.uri}")


def publish(manifest: Manifest, log: JobLog) -> None:
    """Make the checkpoint exist: put `_metadata`, then append `complete`, which is the commit point (PROTOCOL R2).

    Raises StorageError if it does not exist and never will, UnknownOutcomeError from the log if that is not known.
    """
    data = encode_manifest(manifest)
    path = metadata_path(manifest.checkpoint_id)
    failpoint.before("C18")
    log.check_fenced(max_age_s=RECENT_S)  # a manifest of a fenced attempt would be in the way of its successor's
    put_certain(log.storage, path, data, log.wait)
    failpoint.after("C18")
    failpoint.before("C19")
    log.append(Complete(manifest.checkpoint_id, manifest.epoch, path, digest(data)))
    failpoint.after("C19")
