"""Garbage collection of checkpoints and files: first the `discard`, then the deletes (PROTOCOL R3, R22).

What is kept is read from the retained manifests in storage, every time. If one cannot be read, nothing is removed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from penstock import failpoint
from penstock.checkpoint.file_names import FileKind, parse_name
from penstock.checkpoint.log.entries import MAX_FILES_PER_DISCARD, Complete, Discard
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.log.log_view import LogView
from penstock.checkpoint.snapshot.manifest import file_paths, load_manifest
from penstock.errors import CheckpointError
from penstock.storage.storage import Storage


@dataclass(frozen=True)
class SweepScope:
    """What an attempt knows about its own files, after it has listed them."""

    attempt: int
    next_checkpoint: int
    """Higher than every number that this attempt has used."""
    pending: frozenset[int]
    """Checkpoints that may still complete. No manifest will get another number that occurs among the listed files."""
    pinned: frozenset[str]
    """Files of checkpoints that pending ones may build on (PROTOCOL R18)."""
    log_number: int


def split_retained(view: LogView, retained: int) -> tuple[list[Complete], list[Complete]]:
    """The completed checkpoints to keep, and those to discard: all but the newest of the lineage.

    Checkpoints newer than the one restored stay until another one completes. `retained` 0 keeps none.
    """
    kept = list(view.lineage[max(0, len(view.lineage) - retained) :])
    dropped = list(view.lineage[: len(view.lineage) - len(kept)])
    (dropped if view.moved_on or retained == 0 else kept).extend(view.left_behind)
    return kept, dropped


def may_sweep(path: str, scope: SweepScope) -> bool:
    """Whether a file may be removed, by its name, if no retained manifest and no pin lists it (PROTOCOL R22)."""
    name = parse_name(path)
    if name is None:
        return False
    if name.kind is FileKind.LOG:
        return name.temporary and name.number <= scope.log_number
    if name.number in scope.pending and name.attempt in (None, scope.attempt):
        return False
    if name.attempt is None:
        return True  # a manifest of this or an older attempt: a newer one makes the append of the `discard` fail
    return name.attempt < scope.attempt or (name.attempt == scope.attempt and name.number < scope.next_checkpoint)


def collect_garbage(log: JobLog, retained: int, take_scope: Callable[[Sequence[str]], SweepScope]) -> None:
    """Discard and delete what is no longer needed, and finish deletes that were begun.

    `take_scope` is called after the files were listed. Raises CheckpointError if a retained manifest cannot be read;
    then nothing was discarded.
    """
    view = log.view()
    kept, dropped = split_retained(view, retained)
    needed = _needed_files(log, kept)
    present = log.storage.list("")
    scope = take_scope(present)
    needed |= scope.pinned
    begun = set(view.open_deletes)
    if not needed.isdisjoint(begun):
        raise CheckpointError(f"{min(needed & begun)!r} is needed by a retained checkpoint, but discarded in the log")
    useless = [path for path in present if path not in needed and path not in begun and may_sweep(path, scope)]
    _discard(log, [complete.checkpoint for complete in dropped], useless)
    gone = begun.union(useless)
    delete_files(log.storage, [path for path in present if path in gone])


def discard_checkpoint(log: JobLog, checkpoint: int) -> list[str]:
    """Discard one retained checkpoint. Returns its manifest and the files that no other one needs, to be deleted.

    Raises CheckpointError if a retained manifest cannot be read; then nothing was discarded.
    """
    retained = log.view().retained
    dropped = next(complete for complete in retained if complete.checkpoint == checkpoint)
    needed = _needed_files(log, [complete for complete in retained if complete is not dropped])
    files = sorted(file_paths(load_manifest(log.storage, dropped)) - needed)
    _discard(log, [checkpoint], [dropped.metadata_path, *files])
    return [dropped.metadata_path, *files]


def delete_files(storage: Storage, paths: Iterable[str]) -> None:
    """Delete files that are under a `discard`, one by one."""
    for path in paths:
        failpoint.before("C23")
        storage.delete(path)
        failpoint.after("C23")


def _discard(log: JobLog, checkpoints: list[int], files: list[str]) -> None:
    """Append the `discard`, in several entries if there are many files; nothing if there is nothing to discard."""
    while checkpoints or files:
        failpoint.before("C22")
        log.append(Discard(checkpoints, files[:MAX_FILES_PER_DISCARD]))
        failpoint.after("C22")
        checkpoints, files = [], files[MAX_FILES_PER_DISCARD:]


def _needed_files(log: JobLog, kept: Iterable[Complete]) -> set[str]:
    """The paths of all files of these checkpoints, read from their manifests in storage."""
    needed: set[str] = set()
    for complete in kept:
        try:
            needed |= file_paths(load_manifest(log.storage, complete))
        except CheckpointError:
            log.check_fenced()  # PROTOCOL R4: a newer attempt may have deleted it
            raise
        needed.add(complete.metadata_path)
    return needed
