"""Whether a program can be restored from a snapshot. A start and `penstock restore --check` ask the same questions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from penstock.checkpoint.restore.redistribution import require_whole_key_groups
from penstock.checkpoint.restore.uid_mapping import ProgramUids, find_renames, rename, require_mapped
from penstock.checkpoint.snapshot.event_time import begin_time_anew, has_ended
from penstock.errors import CheckpointError
from penstock.model.snapshot import Manifest


@dataclass(frozen=True)
class ProgramOutline:
    """What a restore must know of a program."""

    uids: ProgramUids
    chains: Sequence[Sequence[str]]
    """The operator uids of each stage."""
    max_parallelism: int


def fit_to_program(
    manifest: Manifest, program: ProgramOutline, *, path: str = "", allow_non_restored: bool = False
) -> tuple[Manifest, dict[str, str]]:
    """The manifest under the program's uids, and which were renamed. Raises the first reason against a restore.

    `path`: where the snapshot is; empty for a checkpoint of the job itself.
    """
    renamed = find_renames(manifest, program.uids)
    manifest = rename(manifest, renamed)
    for refusal in restore_refusals(manifest, program, path=path, allow_non_restored=allow_non_restored):
        raise refusal
    is_after_end = path != "" and (manifest.final or has_ended(manifest))
    return begin_time_anew(manifest) if is_after_end else manifest, renamed


def restore_refusals(
    manifest: Manifest, program: ProgramOutline, *, path: str = "", allow_non_restored: bool = False
) -> Iterator[CheckpointError]:
    """Every reason why the program cannot be restored from a manifest that is under its uids."""
    checks: list[Callable[[], None]] = [
        partial(require_mapped, manifest, program.uids, path=path, allow_non_restored=allow_non_restored),
        partial(require_whole_key_groups, manifest, program.max_parallelism),
        partial(require_same_chains, manifest, program.chains),
    ]
    for check in checks:
        try:
            check()
        except CheckpointError as error:
            yield error


def require_same_chains(manifest: Manifest, chains: Sequence[Sequence[str]]) -> None:
    """Raise CheckpointError if rows in flight have no stage to go to: one with the same operators must exist."""
    known = [list(chain) for chain in chains]
    for snapshot in manifest.subtasks:
        if snapshot.spool and snapshot.operator_uids not in known:
            raise CheckpointError(
                f"checkpoint {manifest.checkpoint_id} is unaligned and holds rows in flight to the operators "
                f"{snapshot.operator_uids}, which the program does not have in one stage; go on with the old program "
                f"until a checkpoint without rows in flight, then change it"
            )


def changes_key_groups(manifest: Manifest, max_parallelism: int) -> bool:
    """Whether keyed state must be split into another number of key groups."""
    return bool(manifest.subtasks) and manifest.max_parallelism != max_parallelism
