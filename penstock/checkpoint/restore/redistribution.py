"""Which subtask gets which state at a restore (features A2, A3, C2 to C4), by what the manifest says of it alone."""

from collections.abc import Collection, Sequence

from penstock.errors import CheckpointError
from penstock.model.key_groups import key_group_range
from penstock.model.snapshot import (
    Manifest,
    OperatorStateInfo,
    OperatorStateShare,
    StateFile,
    SubtaskSnapshot,
    TableFile,
    files_of_format,
)

Shares = list[list[OperatorStateShare]]
"""For each new subtask its parts, in the order of the elements."""


def snapshots_to_load(
    manifest: Manifest, operator_uids: Collection[str], key_groups: tuple[int, int], max_parallelism: int
) -> list[SubtaskSnapshot]:
    """The old snapshots that may hold rows of a new subtask with these operators and key groups, in manifest order.

    Rows outside its key groups must be skipped when a snapshot is read. With another max parallelism a key group may
    have rows anywhere, so all snapshots of the operators are read.
    """
    is_same_split = manifest.max_parallelism == max_parallelism
    return [
        old
        for old in manifest.subtasks
        if not _operators(old).isdisjoint(operator_uids) and (not is_same_split or _overlap(old.key_groups, key_groups))
    ]


def redistribute(manifest: Manifest, operator_uid: str, parallelism: int, max_parallelism: int) -> Shares:
    """The shares that an operator's new subtasks get of what its old subtasks have saved."""
    old = sorted((s for s in manifest.subtasks if operator_uid in s.operator_uids), key=lambda s: s.subtask.index)
    shares: Shares = [[] for _ in range(parallelism)]
    starts = {"split": 0, "raw": 0}
    for (mode, _), parts in sorted(_by_name(old, operator_uid).items()):
        whole = [part for _, part in parts]
        if mode == "union":
            given: Shares = [whole for _ in range(parallelism)]
        elif mode == "broadcast":
            given = [[whole[index % len(whole)]] for index in range(parallelism)]
        elif mode == "raw_keyed":
            given = [_overlapping(parts, key_group_range(max_parallelism, parallelism, i)) for i in range(parallelism)]
        elif len(old) == parallelism:
            given = [[part for snapshot, part in parts if snapshot is own] for own in old]
        else:
            given, starts[mode] = split_evenly(whole, parallelism, starts[mode])
        for mine, more in zip(shares, given, strict=True):
            mine.extend(more)
    return shares


def split_evenly(parts: Sequence[OperatorStateShare], parallelism: int, start: int) -> tuple[Shares, int]:
    """Contiguous slices of the concatenation, as even as possible; and the subtask at which the next state starts.

    The first subtasks, counted from `start`, get one element more until the remainder is used up.
    """
    base, remainder = divmod(sum(part.stop - part.start for part in parts), parallelism)
    shares: Shares = [[] for _ in range(parallelism)]
    first = 0
    for number in range(parallelism):
        last = first + base + (number < remainder)
        shares[(start + number) % parallelism] = _slice(parts, first, last)
        first = last
    return shares, (start + remainder) % parallelism


def _slice(parts: Sequence[OperatorStateShare], first: int, last: int) -> list[OperatorStateShare]:
    """Elements `first` to `last` (not included) of the concatenation."""
    found = []
    position = 0
    for part in parts:
        begin, end = max(first - position, 0), min(last - position, part.stop - part.start)
        if begin < end:
            found.append(OperatorStateShare(part.info, part.file, part.start + begin, part.start + end))
        position += part.stop - part.start
    return found


def require_whole_key_groups(manifest: Manifest, max_parallelism: int) -> None:
    """Raise CheckpointError if the number of key groups changes and there is raw state that cannot be split again."""
    if manifest.max_parallelism == max_parallelism:
        return
    infos = [info for snapshot in manifest.subtasks for info in snapshot.operator_states]
    stuck = sorted({info.operator_uid for info in infos if info.mode == "raw_keyed" and info.count})
    if stuck:
        raise CheckpointError(
            f"checkpoint {manifest.checkpoint_id} has raw state by key group of the operators {stuck}, taken with max "
            f"parallelism {manifest.max_parallelism}; its bytes cannot be split anew for {max_parallelism}: set max "
            f"parallelism {manifest.max_parallelism} again"
        )


def _by_name(
    old: Sequence[SubtaskSnapshot], operator_uid: str
) -> dict[tuple[str, str], list[tuple[SubtaskSnapshot, OperatorStateShare]]]:
    """(mode, name) -> what the old subtasks have of it, by their index."""
    found: dict[tuple[str, str], list[tuple[SubtaskSnapshot, OperatorStateShare]]] = {}
    for snapshot in old:
        for info in snapshot.operator_states:
            file = _file_of(snapshot, info) if info.operator_uid == operator_uid else None
            if file is not None:
                share = OperatorStateShare(info, file, 0, info.count)
                found.setdefault((info.mode, info.name), []).append((snapshot, share))
    return found


def _file_of(snapshot: SubtaskSnapshot, info: OperatorStateInfo) -> StateFile | None:
    """Where the elements of a state are: in the subtask's one file, or in a file of their own."""
    for file, table in files_of_format(snapshot.operator_files, TableFile):
        if table.state == (info.operator_uid, info.mode, info.name):
            return file
    return snapshot.operator_file


def _operators(old: SubtaskSnapshot) -> set[str]:
    return {*old.operator_uids, *(table.operator_uid for table in old.tables)}


def _overlap(left: tuple[int, int], right: tuple[int, int]) -> bool:
    return left[0] <= right[1] and right[0] <= left[1]


def _overlapping(
    parts: Sequence[tuple[SubtaskSnapshot, OperatorStateShare]], key_groups: tuple[int, int]
) -> list[OperatorStateShare]:
    """Of raw state by key group: what was saved by subtasks that owned some of these key groups."""
    return [part for old, part in parts if _overlap(old.key_groups, key_groups)]
