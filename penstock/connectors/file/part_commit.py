"""Publishes pending parts, and removes what crashes left behind.

To publish a part, an empty marker is created, then the pending file is renamed to its finished name; each step is
durable before the next begins. The rename is atomic, so the files after a crash show how far it got: a part with
a pending file is not published; a part with a marker and no pending file is, even if the user has moved or deleted the
finished file since. (With `link` and `unlink` instead of `rename`, a file that a reader removes between the two would
look unpublished, and would be published again.) The finished name contains a nonce, and is looked up before the rename:
an existing file is not overwritten.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.connectors.file.part_files import PartFolder
from penstock.connectors.file.part_names import COMMITTED, IN_PROGRESS, PENDING, escape, parse_hidden, sink_hash
from penstock.errors import CheckpointCorruptError, NameTakenError, SinkTransactionLostError, StorageError
from penstock.model.snapshot import Committable


def publish(folder: PartFolder, committable: Committable) -> None:
    """Give the part its finished name, durably. Does nothing if it has it already. Any process may call this."""
    part = _pending_part(committable)
    if folder.size("") is None:
        raise StorageError(
            f"the folder {str(folder)!r} of sink {committable.sink_uid!r} does not exist; mount or restore it"
        )
    if _is_pending(folder, part, committable):
        folder.touch(part.marker)
        folder.sync()
        _rename(folder, part)
    if folder.size(part.marker) is None and folder.size(part.final) is None:
        raise _lost(folder, committable, "there is no pending file, no finished file and no marker of a commit")
    folder.sync()


def sweep(folder: PartFolder, owner: tuple[str, str], keep: Sequence[Committable], before_attempt: int) -> None:
    """Remove the hidden files of one job and sink, `owner`, that are no longer needed.

    These are the parts of attempts before `before_attempt`, and the markers of completed commits. Parts in `keep` stay,
    and so do all files of other jobs, sinks and programs.
    """
    job_id, sink_uid = owner
    needed = {committable.transaction for committable in keep}
    found = [parsed for parsed in map(parse_hidden, folder.names()) if parsed is not None]
    ours = [
        (state, part)
        for state, part in found
        if (part.job, part.sink) == (escape(job_id), sink_hash(sink_uid))
        and (state == IN_PROGRESS or part.transaction not in needed)  # a spool of a pending part is never needed
    ]
    pending = {part for state, part in ours if state == PENDING}
    markers = [part for state, part in ours if state == COMMITTED]
    # A marker without a pending file means "published": it must be durably gone before the pending file.
    for part in markers:
        is_done = part not in pending or part.attempt < before_attempt
        if is_done and part.attempt <= before_attempt:  # PROTOCOL R4: a stale attempt removes nothing of a newer one
            folder.remove(part.hidden(COMMITTED))
    if any(part in pending for part in markers):
        folder.sync()
    for state, part in ours:
        if state != COMMITTED and part.attempt < before_attempt:
            folder.remove(part.hidden(state))


@dataclass(frozen=True)
class _PendingPart:
    """The content of a committable."""

    pending: str
    final: str
    marker: str
    size: int


def _pending_part(committable: Committable) -> _PendingPart:
    """The content of a committable; CheckpointCorruptError unless a PartWriter wrote it."""
    data = committable.data
    pending, final, size = data.get("pending"), data.get("final"), data.get("size")
    parsed = parse_hidden(pending) if isinstance(pending, str) else None
    if (
        parsed is None
        or parsed[0] != PENDING
        or parsed[1].transaction != committable.transaction
        or "/" in str(pending)
    ):
        raise _corrupt(committable, "the name of a pending part file", pending)
    if not isinstance(final, str) or final.startswith((".", "_")) or "/" in final or not final:
        raise _corrupt(committable, "the name of a finished part file", final)
    if not isinstance(size, int):
        raise _corrupt(committable, "the size of the part file", size)
    return _PendingPart(parsed[1].hidden(PENDING), final, parsed[1].hidden(COMMITTED), size)


def _is_pending(folder: PartFolder, part: _PendingPart, committable: Committable) -> bool:
    size = folder.size(part.pending)
    if size is not None and size != part.size:
        raise _lost(folder, committable, f"its pending file has {size} bytes where {part.size} were written")
    return size is not None


def _rename(folder: PartFolder, part: _PendingPart) -> None:
    if folder.size(part.final) is not None:
        if folder.size(part.pending) is None:
            return  # another process that commits the same checkpoint was first
        raise NameTakenError(
            f"cannot finish {part.pending!r}: {part.final!r} exists in {str(folder)!r}, but this sink did not create "
            f"it; move it away and resume the job"
        )
    try:
        folder.rename(part.pending, part.final)
    except StorageError:
        # Another process that commits the same checkpoint may have been first; the marker is there in any case.
        if folder.size(part.pending) is not None:
            raise


def _lost(folder: PartFolder, committable: Committable, reason: str) -> SinkTransactionLostError:
    data = committable.data
    return SinkTransactionLostError(
        f"sink {committable.sink_uid!r} has lost {data.get('rows')} rows of subtask {committable.subtask} "
        f"(epoch {committable.epoch}, transaction {committable.transaction!r}): {reason} in {str(folder)!r}, where "
        f"{data.get('pending')!r} was to become {data.get('final')!r}; put the file back and resume the job, "
        f"or restore an older checkpoint"
    )


def _corrupt(committable: Committable, expected: str, found: object) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"committable {committable.transaction} of sink {committable.sink_uid}", expected, repr(found)
    )
