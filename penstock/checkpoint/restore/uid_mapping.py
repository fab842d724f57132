"""Which operator and source of a program gets which state of a snapshot (features O1 to O7, PROTOCOL R26).

State is found by uid. An operator with a uid hash (`set_uid_hash`) gets the state of the operator whose id is that
hash, or whose derived uid it is; from then on the state is kept under the operator's current uid.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from penstock.errors import SnapshotRefusedError, UsageError
from penstock.model.operator_ids import operator_id
from penstock.model.snapshot import Manifest, OwnTables, StateFile, SubtaskSnapshot, TableFile, files_of_format

UNMAPPED = "UNMAPPED_STATE"


@dataclass(frozen=True)
class ProgramUids:
    """The uids of a program -> their uid hash, None for those without."""

    operators: Mapping[str, str | None]
    """Including sinks."""
    sources: Mapping[str, str | None] = field(default_factory=dict)
    sinks: frozenset[str] = frozenset()
    """The operators that commit."""


def stateful_uids(manifest: Manifest) -> list[str]:
    """The operators that the snapshot has state of, in order of their names.

    A canonical savepoint knows how many rows each table has. In other snapshots every table counts.
    """
    if manifest.savepoint == "canonical":
        files = [file for old in manifest.subtasks for file in (*old.files, *old.operator_files)]
        return sorted({table.operator_uid for _, table in files_of_format(files, TableFile) if table.rows})
    saved = {table.operator_uid for old in manifest.subtasks for table in old.tables}
    return sorted(saved | {info.operator_uid for old in manifest.subtasks for info in old.operator_states})


def source_uids(manifest: Manifest) -> list[str]:
    """The sources that have a position in the snapshot."""
    return list(manifest.sources.source_uids) if manifest.sources.file is not None else []


def find_renames(manifest: Manifest, program: ProgramUids) -> dict[str, str]:
    """Uids in the snapshot whose state goes to an operator or a source with another uid."""
    operators = {uid for old in manifest.subtasks for uid in old.operator_uids} | set(stateful_uids(manifest))
    operators |= {committable.sink_uid for committable in manifest.committables}
    return {
        **_renames(operators, program.operators),
        **_renames(manifest.sources.source_uids, program.sources),
    }


def rename(manifest: Manifest, renames: Mapping[str, str]) -> Manifest:
    """The manifest under the program's uids. Files keep the old ones."""
    if not renames:
        return manifest
    sources = manifest.sources
    return msgspec.structs.replace(
        manifest,
        subtasks=[_renamed_snapshot(old, renames) for old in manifest.subtasks],
        sources=msgspec.structs.replace(sources, source_uids=[renames.get(uid, uid) for uid in sources.source_uids]),
        committables=[_replaced(c, "sink_uid", renames) for c in manifest.committables],
        watermarks={renames.get(uid, uid): mark for uid, mark in manifest.watermarks.items()},
        max_timestamps={_renamed(key, renames): time for key, time in manifest.max_timestamps.items()},
    )


def _renamed(key: str, renames: Mapping[str, str]) -> str:
    """A uid, or that of a source followed by one of its partitions."""
    uid, separator, partition = key.partition("\n")
    return renames.get(uid, uid) + separator + partition


def unmapped(manifest: Manifest, program: ProgramUids) -> list[str]:
    """The operators and sources in the manifest, which is under the program's uids, that the program does not have."""
    lost = [uid for uid in stateful_uids(manifest) if uid not in program.operators]
    return lost + [uid for uid in source_uids(manifest) if uid not in program.sources]


def require_mapped(
    manifest: Manifest, program: ProgramUids, *, path: str = "", allow_non_restored: bool = False
) -> None:
    """Raise SnapshotRefusedError unless the program has an operator or source for everything in the manifest.

    The manifest is under the program's uids. `path`: where it is; empty for a checkpoint of the job itself.
    """
    lost = unmapped(manifest, program)
    if lost and not allow_non_restored:
        raise SnapshotRefusedError(
            f"{UNMAPPED} op={lost[0]}",
            f"Failed to rollback to checkpoint/savepoint {path or manifest.checkpoint_id}. Cannot map "
            f"checkpoint/savepoint state for operator {operator_id(lost[0])} (uid {lost[0]!r}) to the new program, "
            f"because the operator is not available in the new program. If you want to allow to skip this, you can set "
            f"the --allowNonRestoredState option on the CLI.{_others(lost)}",
        )
    # PROTOCOL R26: somebody must commit the output that the checkpoint lists.
    missing = sorted({committable.sink_uid for committable in manifest.committables}.difference(program.sinks))
    if missing:
        raise SnapshotRefusedError(
            f"{UNMAPPED} op={missing[0]}",
            f"checkpoint {manifest.checkpoint_id} has output to commit for sinks that the program does not have: "
            f"{missing}; start the old program until its next checkpoint, then remove the sink",
        )


def _others(lost: list[str]) -> str:
    return f" The same holds for {', '.join(map(repr, lost[1:]))}." if len(lost) > 1 else ""


def _renames(saved: Iterable[str], program: Mapping[str, str | None]) -> dict[str, str]:
    """Old uid -> new uid. An operator with the same uid takes precedence."""
    saved = set(saved)
    left = {uid: operator_id(uid) for uid in sorted(saved.difference(program))}
    found: dict[str, str] = {}
    for uid, uid_hash in program.items():
        ids = {operator_id(uid), uid_hash}
        old = next((old for old, old_id in left.items() if old_id in ids or old == uid_hash), None)
        if old is None or uid in saved:
            continue
        if old in found:
            raise UsageError(
                f"operators {found[old]!r} and {uid!r} both take the state of {old!r}; give one another uid hash"
            )
        found[old] = uid
    return found


_Struct = TypeVar("_Struct")


def _replaced(struct: _Struct, name: str, renames: Mapping[str, str]) -> _Struct:
    """The struct with another uid in its field of that name."""
    old = getattr(struct, name)
    changed: _Struct = msgspec.structs.replace(struct, **{name: renames.get(old, old)})  # type: ignore[type-var]
    return changed


def _renamed_snapshot(old: SubtaskSnapshot, renames: Mapping[str, str]) -> SubtaskSnapshot:
    def each(structs: Iterable[Any]) -> list[Any]:
        return [_replaced(struct, "operator_uid", renames) for struct in structs]

    return msgspec.structs.replace(
        old,
        tables=each(old.tables),
        operator_uids=[renames.get(uid, uid) for uid in old.operator_uids],
        operator_states=each(old.operator_states),
        files=[_renamed_file(file, renames) for file in old.files],
        operator_files=[_renamed_file(file, renames) for file in old.operator_files],
    )


def _renamed_file(file: StateFile, renames: Mapping[str, str]) -> StateFile:
    if isinstance(file.format, OwnTables):
        return file
    return file.with_format(_replaced(file.format, "operator_uid", renames))
