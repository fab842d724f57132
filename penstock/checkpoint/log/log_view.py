"""What a job log says: a fold over its records, without I/O (PROTOCOL section 2)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from penstock.checkpoint.file_names import checkpoint_of
from penstock.checkpoint.log.entries import (
    TERMINAL,
    Base,
    Claim,
    Committing,
    Complete,
    Discard,
    Record,
    Restore,
    Resumed,
    SavepointEntry,
    Status,
    Stopping,
)
from penstock.errors import LogCorruptError

DISPOSER = "savepoint --dispose"
"""The writer in the claim of a command that removes a checkpoint; it commits nothing."""


@dataclass(frozen=True)
class LogView:
    """The state of a job after the log's first `number` entries."""

    number: int = 0
    """Of the last entry."""
    attempt: int = 0
    claim: Claim | None = None
    restore: Restore | None = None
    lineage: tuple[Complete, ...] = ()
    """Completed checkpoints that the current attempt's state descends from, oldest first, without discarded ones."""
    left_behind: tuple[Complete, ...] = ()
    """Completed checkpoints newer than the one restored; discarded after the next completion."""
    open_deletes: tuple[str, ...] = ()
    """Files under a `discard` that may still exist."""
    status: Status | None = None
    stopping: Stopping | None = None
    """A stop with a savepoint that has begun and not ended (PROTOCOL R30)."""
    savepoint: SavepointEntry | None = None
    """The newest one; its `_metadata` may be missing."""
    highest_checkpoint: int = -1
    """The highest checkpoint number in any entry, completed or not."""
    started: bool = False
    """A `restore` or `complete` was written: the job never starts from nothing again (PROTOCOL R23)."""
    commits_begun: int = -1
    """The newest checkpoint whose output may be visible already."""
    confirmed: frozenset[int] = frozenset()
    """Retained checkpoints whose transactions are all committed: a later one of the lineage is complete (R21)."""
    disposed: frozenset[int] = frozenset()
    """Checkpoints that a command has removed since the last `base`: not because a later one was committed."""
    claimed: str | None = None
    """The claimed snapshot outside the job's folder; None once all its files are under a `discard`."""
    claimed_sha256: str = ""
    """Of its manifest."""
    claimed_root: str = ""
    claimed_deletes: tuple[str, ...] = ()
    """Its files below that address that are under a `discard` and may still exist."""
    base_number: int = 0
    entry_count: int = 0
    """Of all entries ever written, including those that a `base` has replaced."""
    updated_ms: int = 0
    """When the last entry was written, by its writer's clock."""

    @property
    def origin(self) -> str | None:
        """The snapshot outside the job's folder that the job starts from; None once it has completed a checkpoint.

        None even if all its checkpoints are gone, because their output is committed.
        """
        is_left = not self.lineage and self.commits_begun < 0
        return self.restore.path if is_left and self.restore is not None else None

    @property
    def retained(self) -> tuple[Complete, ...]:
        """Every completed checkpoint that is not discarded."""
        return tuple(sorted(self.lineage + self.left_behind, key=lambda complete: complete.checkpoint))

    @property
    def moved_on(self) -> bool:
        """A checkpoint was completed since the last `restore`."""
        if not self.lineage:
            return False
        return self.restore is None or self.restore.checkpoint != self.lineage[-1].checkpoint

    @property
    def has_claimed_snapshot(self) -> bool:
        """The job owns a snapshot outside its folder, or has not finished deleting one."""
        return self.claimed is not None or bool(self.claimed_deletes)

    @property
    def is_terminal(self) -> bool:
        """The job has ended."""
        return self.status is not None and self.status.status in TERMINAL


def fold(records: Iterable[Record]) -> LogView:
    """The view after these records, which begin with entry 1 or a `base`."""
    view = LogView()
    for record in records:
        view = apply(view, record)
    return view


def apply(view: LogView, record: Record) -> LogView:
    """The view after one more record; raises LogCorruptError if the record does not fit."""
    entry = record.entry
    if isinstance(entry, Base) and view.number == 0:
        view = _from_base(entry, record.number - 1)
    _require_successor(view, record)
    view = replace(view, number=record.number, entry_count=view.entry_count + 1, updated_ms=record.written_ms)
    match entry:
        case Claim():
            return replace(view, attempt=entry.attempt, claim=entry, status=None)
        case Restore():
            return _restored(view, entry)
        case Complete():
            return _completed(view, entry)
        case Committing():
            return replace(view, commits_begun=max(view.commits_begun, entry.checkpoint))
        case Discard():
            return _discarded(view, entry)
        case SavepointEntry():
            return _counted(replace(view, savepoint=entry), [entry.checkpoint])
        case Stopping():
            return _counted(replace(view, stopping=entry), [entry.checkpoint])
        case Resumed():
            return replace(view, stopping=None)
        case Status():
            stopping = None if entry.status in ("finished", "cancelled") else view.stopping
            return replace(view, status=entry, stopping=stopping)
        case Base():
            deletes = tuple(entry.open_deletes)
            return replace(view, base_number=record.number, open_deletes=deletes, claimed_deletes=())
        case _:
            return view


def summarize(view: LogView, still_there: Iterable[str]) -> Base:
    """The `base` that replaces all entries up to the view; `still_there`: files under a `discard` that exist.

    It is written only when all discarded files of a claimed snapshot are deleted.
    """
    return Base(
        claim=view.claim,
        restore=view.restore,
        status=view.status,
        stopping=view.stopping,
        highest_checkpoint=view.highest_checkpoint,
        started=view.started,
        line=list(view.lineage),
        left_behind=list(view.left_behind),
        open_deletes=sorted(still_there),
        entry_count=view.entry_count,
        commits_begun=view.commits_begun,
        confirmed=sorted(view.confirmed),
        savepoint=view.savepoint,
        claimed=view.claimed,
        claimed_sha256=view.claimed_sha256,
    )


def _from_base(base: Base, number: int) -> LogView:
    return LogView(
        number=number,
        attempt=base.claim.attempt if base.claim is not None else 0,
        claim=base.claim,
        restore=base.restore,
        lineage=tuple(base.line),
        left_behind=tuple(base.left_behind),
        open_deletes=tuple(base.open_deletes),
        status=base.status,
        stopping=base.stopping,
        highest_checkpoint=base.highest_checkpoint,
        started=base.started,
        entry_count=base.entry_count,
        commits_begun=base.commits_begun,
        confirmed=frozenset(base.confirmed),
        savepoint=base.savepoint,
        claimed=base.claimed,
        claimed_sha256=base.claimed_sha256,
    )


def _require_successor(view: LogView, record: Record) -> None:
    entry = record.entry
    if record.number != view.number + 1:
        raise LogCorruptError(
            f"log entry {record.number} follows entry {view.number}: entries are missing between them"
        )
    expected = view.attempt + 1 if isinstance(entry, Claim) else view.attempt
    found = entry.attempt if isinstance(entry, Claim) else record.attempt
    # Only the newest attempt can append (PROTOCOL I-2): otherwise the storage has broken the promise of put_new.
    if found != expected or record.attempt != found or expected == 0:
        raise LogCorruptError(f"log entry {record.number} is of attempt {found}, expected attempt {expected}")


def _restored(view: LogView, entry: Restore) -> LogView:
    """The lineage ends at what was restored; newer checkpoints are left behind."""
    if entry.checkpoint is None:
        view = replace(view, restore=entry, lineage=(), left_behind=view.retained, started=True)
        return replace(view, claimed=entry.path, claimed_sha256=entry.sha256) if entry.claimed else view
    for kept, others in ((view.lineage, view.left_behind), (view.left_behind, view.lineage)):
        for position, complete in enumerate(kept):
            if complete.checkpoint == entry.checkpoint:
                lineage = kept[: position + 1] if kept is view.lineage else (complete,)
                behind = tuple(c for c in kept + others if c not in lineage)
                begun = max(view.commits_begun, entry.checkpoint)  # a recovery commits what it restores
                return replace(
                    view, restore=entry, lineage=lineage, left_behind=behind, started=True, commits_begun=begun
                )
    raise LogCorruptError(f"the log's restore of checkpoint {entry.checkpoint} names none that is complete and kept")


def _completed(view: LogView, entry: Complete) -> LogView:
    newest = max((complete.checkpoint for complete in view.retained), default=-1)
    if entry.checkpoint <= newest:
        raise LogCorruptError(f"checkpoint {entry.checkpoint} completes after checkpoint {newest}")
    if view.lineage and entry.epoch < view.lineage[-1].epoch:
        raise LogCorruptError(
            f"checkpoint {entry.checkpoint} goes back from epoch {view.lineage[-1].epoch} to {entry.epoch}"
        )
    confirmed = view.confirmed.union(complete.checkpoint for complete in view.lineage)
    lineage = (*view.lineage, entry)
    return _counted(replace(view, lineage=lineage, started=True, confirmed=confirmed), [entry.checkpoint])


def _discarded(view: LogView, entry: Discard) -> LogView:
    if entry.root:
        return _discarded_snapshot(view, entry)
    gone = set(entry.checkpoints)
    # An attempt that sleeps now may delete a discarded manifest late, so its number is never used again (R7).
    used = [number for number in map(checkpoint_of, entry.files) if number is not None]
    is_disposal = view.claim is not None and view.claim.writer == DISPOSER
    return _counted(
        replace(
            view,
            lineage=tuple(complete for complete in view.lineage if complete.checkpoint not in gone),
            left_behind=tuple(complete for complete in view.left_behind if complete.checkpoint not in gone),
            open_deletes=(*view.open_deletes, *entry.files),
            confirmed=view.confirmed - gone,
            disposed=view.disposed | gone if is_disposal else view.disposed,
        ),
        [*entry.checkpoints, *used],
    )


def _discarded_snapshot(view: LogView, entry: Discard) -> LogView:
    """Several entries may name the files of one snapshot, the last of them its manifest; one without files ends it."""
    if not entry.files:
        return replace(view, claimed=None, claimed_deletes=())
    is_last = any(path.rpartition("/")[2] == "_metadata" for path in entry.files)
    deletes = (*view.claimed_deletes, *entry.files)
    claimed = None if is_last else view.claimed
    return replace(view, claimed=claimed, claimed_root=entry.root, claimed_deletes=deletes)


def _counted(view: LogView, checkpoints: Iterable[int]) -> LogView:
    return replace(view, highest_checkpoint=max([view.highest_checkpoint, *checkpoints]))
