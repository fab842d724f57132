"""`chk-N/_metadata`: its bytes, what must hold of one, and the files it lists (docs/internals/formats.md).

A manifest is JSON with magic and version first. It is checked just before it is written and just after it is read;
what is read from storage is not trusted: sizes are limited before anything is decoded, paths stay in the job's folder.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from penstock.checkpoint.log.entries import Complete
from penstock.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointMissingError,
    FileMissingError,
    PathOutsideError,
    SnapshotRefusedError,
    UnsupportedValueError,
    UsageError,
)
from penstock.model.key_groups import MAX_KEY_GROUPS
from penstock.model.snapshot import (
    Manifest,
    NativeName,
    StateFile,
    SubtaskSnapshot,
    TableFile,
    files_of_format,
    snapshot_files,
)
from penstock.model.type_information import parse_type
from penstock.state.format.snapshot_file import KINDS
from penstock.state.operator.operator_file import MODES
from penstock.storage.paths import confine
from penstock.storage.storage import Storage

MAGIC = "penstock-checkpoint"
FORMAT_VERSION = 1
MAX_MANIFEST_BYTES = 64 * 1024 * 1024
MAX_FILES = 1_000_000
MAX_OBJECTS = 4 * MAX_FILES
MAX_FILE_BYTES = 1 << 50
MAX_NUMBER = 1 << 63

_MODES = frozenset(("keyed", *MODES))
_HEX = frozenset("0123456789abcdef")
_decoder = msgspec.json.Decoder(Manifest)
_BEGINNING = re.compile(rb'\s*\{\s*"magic"\s*:\s*"' + MAGIC.encode() + rb'"')

CORRUPT = "CORRUPT_MANIFEST"
TOO_MUCH = "LIMIT_EXCEEDED"


class Problem(NamedTuple):
    """What is wrong with a manifest, and its error code (reliability B-M01 to B-M15)."""

    expected: str
    found: str
    code: str = CORRUPT


class _Head(msgspec.Struct):
    """The part of a manifest, in every version, that says which version it is."""

    magic: str
    format_version: int


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of a manifest; raises CheckpointError if it is not consistent."""
    problem = find_problem(manifest)
    if problem is not None:
        raise CheckpointError(
            f"the manifest of checkpoint {manifest.checkpoint_id} has {problem.found}, expected {problem.expected}"
        )
    data = msgspec.json.encode(manifest)
    if len(data) > MAX_MANIFEST_BYTES:
        raise CheckpointError(
            f"the manifest of checkpoint {manifest.checkpoint_id} has {len(data)} bytes, the limit is "
            f"{MAX_MANIFEST_BYTES}; keep less state inline"
        )
    return data


def decode_manifest(data: bytes, path: str, *, sha256: str | None = None) -> Manifest:
    """The manifest in these bytes, checked; with `sha256`, the one that the job log names.

    Raises CheckpointCorruptError, or SnapshotRefusedError if it is of another version.
    """
    require_small(path, len(data))
    if sha256 is not None and digest(data) != sha256:
        raise CheckpointCorruptError(path, f"sha256 {sha256}", f"sha256 {digest(data)}", CORRUPT)
    if _BEGINNING.match(data[:200]) is None:
        raise CheckpointCorruptError(path, f"magic {MAGIC!r}", repr(bytes(data[:20])), "NOT_A_MANIFEST")
    if data.count(b"{") + data.count(b"[") > MAX_OBJECTS:
        raise CheckpointCorruptError(path, f"at most {MAX_OBJECTS} parts", "more", TOO_MUCH)
    try:
        _check_head(msgspec.json.decode(data, type=_Head), path)
        if sha256 is None:
            json.loads(data, object_pairs_hook=_unique_keys)
        manifest = _decoder.decode(data)
    except RecursionError as error:
        raise CheckpointCorruptError(path, "a few levels of nesting", "too many", TOO_MUCH) from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise CheckpointCorruptError(path, "a manifest", f"{error}", CORRUPT) from error
    problem = find_problem(manifest)
    if problem is not None:
        raise CheckpointCorruptError(path, *problem)
    return manifest


def load_manifest(storage: Storage, complete: Complete) -> Manifest:
    """The manifest of a completed checkpoint, read from storage and compared with the log's `complete`.

    A storage that does not answer is a StorageError, never a missing or damaged checkpoint.
    """
    path = complete.metadata_path
    try:
        data = read_metadata(storage, path)
    except FileMissingError as error:
        raise CheckpointMissingError(
            f"the manifest {path!r} of checkpoint {complete.checkpoint} is not in {storage.uri} (MISSING_FILE)"
        ) from error
    manifest = decode_manifest(data, path, sha256=complete.metadata_sha256)
    if manifest.checkpoint_id != complete.checkpoint:
        raise CheckpointCorruptError(
            path, f"checkpoint {complete.checkpoint}", f"checkpoint {manifest.checkpoint_id}", "BROKEN_CHAIN"
        )
    return manifest


def read_metadata(storage: Storage, path: str) -> bytes:
    """The bytes of a manifest; one that is too large is not read."""
    require_small(path, storage.size(path))
    return storage.read(path)


def require_small(path: str, size: int) -> None:
    """Raise CheckpointCorruptError if a manifest is larger than any that is ever written."""
    if size > MAX_MANIFEST_BYTES:
        raise CheckpointCorruptError(path, f"at most {MAX_MANIFEST_BYTES} bytes", f"{size} bytes", TOO_MUCH)


def verify_file(storage: Storage, file: StateFile) -> bytes:
    """The file's bytes, whose size and sha256 are those of the manifest."""
    data = file.inline if file.inline is not None else _read(storage, file)
    if len(data) != file.size:
        raise CheckpointCorruptError(file.path, f"{file.size} bytes", f"{len(data)} bytes")
    if digest(data) != file.sha256:
        raise CheckpointCorruptError(file.path, f"sha256 {file.sha256}", f"sha256 {digest(data)}")
    return data


def verify_sizes(storage: Storage, manifest: Manifest) -> None:
    """Return if every file of the manifest exists with its size; contents are verified as they are read."""
    for file in state_files(manifest):
        if file.inline is None:
            try:
                size = storage.size(file.path)
            except FileMissingError as error:
                raise _missing(storage, file) from error
            except PathOutsideError as error:
                raise _outside(file, error) from error
            if size != file.size:
                raise CheckpointCorruptError(file.path, f"{file.size} bytes", f"{size} bytes")


def state_files(manifest: Manifest) -> Iterator[StateFile]:
    """Every file entry of the manifest, including inline ones."""
    for snapshot in manifest.subtasks:
        yield from snapshot_files(snapshot)
    if manifest.sources.file is not None:
        yield manifest.sources.file


def file_paths(manifest: Manifest) -> set[str]:
    """The paths of all files that the manifest needs, without its own."""
    return {file.path for file in state_files(manifest) if file.inline is None}


def digest(data: bytes) -> str:
    """The sha256 as it is written in manifests."""
    return hashlib.sha256(data).hexdigest()


def find_problem(manifest: Manifest) -> Problem | None:
    """What is wrong with a manifest; None if it is consistent."""
    files = list(state_files(manifest))
    if len(files) > MAX_FILES:
        return Problem(f"at most {MAX_FILES} files", f"{len(files)} files", TOO_MUCH)
    problems = (
        _problem_of_numbers(manifest),
        *(_problem_of_file(file) for file in files),
        *(_problem_of_snapshot(manifest, snapshot) for snapshot in manifest.subtasks),
        _problem_of_doubles(manifest),
        _problem_of_types(manifest),
        _problem_of_key_groups(manifest),
    )
    return next((problem for problem in problems if problem is not None), None)


def _read(storage: Storage, file: StateFile) -> bytes:
    try:
        return storage.read(file.path)
    except FileMissingError as error:
        raise _missing(storage, file) from error
    except PathOutsideError as error:
        raise _outside(file, error) from error


def _outside(file: StateFile, error: PathOutsideError) -> CheckpointCorruptError:
    return CheckpointCorruptError(file.path, "a file in the snapshot's folder", str(error), "PATH_OUTSIDE_ROOT")


def _missing(storage: Storage, file: StateFile) -> CheckpointMissingError:
    return CheckpointMissingError(
        f"checkpoint file {file.path!r} ({file.size} bytes) is not in {storage.uri} (MISSING_FILE); "
        f"restore an older checkpoint (see `penstock checkpoints list`)"
    )


def _check_head(head: _Head, path: str) -> None:
    if head.magic != MAGIC:
        raise CheckpointCorruptError(path, f"magic {MAGIC!r}", f"magic {head.magic!r}", "NOT_A_MANIFEST")
    if head.format_version != FORMAT_VERSION:
        raise SnapshotRefusedError(
            f"UNSUPPORTED_VERSION have={head.format_version} max={FORMAT_VERSION}",
            f"manifest {path!r} has format version {head.format_version}, this release reads version {FORMAT_VERSION}",
        )


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice in one object")
    return found


def _problem_of_numbers(manifest: Manifest) -> Problem | None:
    number = manifest.checkpoint_id
    numbers = (number, manifest.epoch, manifest.attempt - 1, manifest.max_parallelism - 1, abs(manifest.now_ms))
    if not all(0 <= value < MAX_NUMBER for value in numbers):
        found = f"checkpoint {number}, epoch {manifest.epoch}, attempt {manifest.attempt}"
        found += f", {manifest.max_parallelism} key groups"
        return Problem("numbers from 0, attempt and max parallelism from 1", found)
    if manifest.max_parallelism > MAX_KEY_GROUPS:
        found = f"{manifest.max_parallelism} key groups"
        return Problem(f"at most {MAX_KEY_GROUPS} key groups", found, "BAD_KEY_GROUPS")
    if manifest.parent is not None and not 0 <= manifest.parent < number:
        return Problem(f"a parent before checkpoint {number}", f"parent {manifest.parent}", "BROKEN_CHAIN")
    return None


def _problem_of_file(file: StateFile) -> Problem | None:
    if not 0 <= file.size <= MAX_FILE_BYTES:
        return Problem("a file size", f"{file.size} bytes for {file.path!r}")
    if len(file.sha256) != 64 or not _HEX.issuperset(file.sha256):
        return Problem("a sha256 of 64 hex digits", f"{file.sha256!r} for {file.path!r}")
    if file.native is not None and file.table is not None:
        return Problem("a file of one format", f"{file.path!r} of two")
    if file.inline is not None:
        is_whole = len(file.inline) == file.size
        return None if is_whole else Problem(f"{file.size} bytes inline", f"{len(file.inline)} bytes")
    try:
        confine(file.path)
    except PathOutsideError as error:
        return Problem("files in the job's folder", str(error), "PATH_OUTSIDE_ROOT")
    return None


def _problem_of_snapshot(manifest: Manifest, snapshot: SubtaskSnapshot) -> Problem | None:
    first, last = snapshot.key_groups
    if (snapshot.tables or snapshot.spool) and not 0 <= first <= last < manifest.max_parallelism:
        found = f"{first} to {last} for subtask {snapshot.subtask}"
        return Problem(f"key groups below {manifest.max_parallelism}", found, "BAD_KEY_GROUPS")
    if snapshot.version.epoch > manifest.epoch:
        found = f"{snapshot.version} for subtask {snapshot.subtask}"
        return Problem(f"versions up to epoch {manifest.epoch}", found, "BROKEN_CHAIN")
    known = {(info.operator_uid, "keyed", info.name) for info in snapshot.tables}
    known |= {(info.operator_uid, info.mode, info.name) for info in snapshot.operator_states}
    for file, table in files_of_format((*snapshot.files, *snapshot.operator_files), TableFile):
        if table.state not in known:
            return Problem("files of known states", f"{file.path!r} with another for subtask {snapshot.subtask}")
    if snapshot.operator_states and snapshot.operator_file is None and not manifest.savepoint:
        return Problem("a file with the operator state", f"none for subtask {snapshot.subtask}")
    strange = next((place for place in known if "\0" in place[0] + place[2] or place[1] not in _MODES), None)
    if strange is not None or any(info.kind not in KINDS for info in snapshot.tables):
        return Problem("states of known kinds", f"{strange or 'another kind'!r} for subtask {snapshot.subtask}")
    if snapshot.spool_skip < 0 or (snapshot.spool_skip and not snapshot.spool):
        return Problem("rows in flight", f"{snapshot.spool_skip} fewer than none for subtask {snapshot.subtask}")
    if any(info.count < 0 for info in snapshot.operator_states):
        return Problem("counts from 0", f"operator state with less for subtask {snapshot.subtask}")
    return None


def _problem_of_doubles(manifest: Manifest) -> Problem | None:
    subtasks = [snapshot.subtask for snapshot in manifest.subtasks]
    if len(set(subtasks)) != len(subtasks):
        return Problem("one snapshot for each subtask", "two for one", "DUPLICATE_STATE")
    twice = _twice(file.path for file in state_files(manifest) if file.inline is None)
    if twice is not None:
        return Problem("each file once", f"{twice!r} twice", "DUPLICATE_STATE")
    for snapshot in manifest.subtasks:
        native = [name for _, name in files_of_format(snapshot.files, NativeName)]
        tables = [(info.operator_uid, info.name) for info in snapshot.tables]
        states = [(info.operator_uid, info.mode, info.name) for info in snapshot.operator_states]
        twice = _twice(native) or _twice(tables) or _twice(states)
        if twice is not None:
            return Problem("each state once", f"{twice} twice for subtask {snapshot.subtask}", "DUPLICATE_STATE")
    transactions = [(committable.sink_uid, committable.transaction) for committable in manifest.committables]
    if len(set(transactions)) != len(transactions):
        return Problem("each sink transaction once", "one twice")
    return None


def _problem_of_key_groups(manifest: Manifest) -> Problem | None:
    """The ranges of a stage with keyed state must cover all key groups without overlap (PROTOCOL I-8)."""
    stages: dict[str, list[SubtaskSnapshot]] = {}
    for snapshot in manifest.subtasks:
        stages.setdefault(snapshot.subtask.stage, []).append(snapshot)
    for stage, snapshots in stages.items():
        if not any(snapshot.tables or snapshot.spool for snapshot in snapshots):
            continue
        problem = problem_of_ranges([snapshot.key_groups for snapshot in snapshots], manifest.max_parallelism)
        if problem is not None:
            expected = f"key groups 0 to {manifest.max_parallelism - 1} once in stage {stage!r}"
            return Problem(expected, problem, "BAD_KEY_GROUPS")
    return None


def _problem_of_types(manifest: Manifest) -> Problem | None:
    """Every type is one that this release knows: names are looked up in a list, nothing is imported by name."""
    named: dict[str, str] = {}
    for snapshot in manifest.subtasks:
        for info in snapshot.tables:
            types = [*info.key_types, info.value_type, info.map_key_type or "", info.namespace or ""]
            named.update(dict.fromkeys(types, info.name))
        for state in snapshot.operator_states:
            named.update(dict.fromkeys([state.value_type, state.map_key_type or ""], state.name))
    named.pop("", None)
    for text, state_name in named.items():
        try:
            parse_type(text)
        except (UsageError, UnsupportedValueError, ValueError, RecursionError) as error:
            return Problem("a known type", f"{text[:80]!r} of state {state_name!r} ({error})", "UNKNOWN_SERIALIZER")
    return None


def _twice(items: Iterable[Any]) -> Any:
    """The first item that occurs twice; None if there is none."""
    seen = set()
    for item in items:
        if item in seen:
            return item
        seen.add(item)
    return None


def problem_of_ranges(ranges: Sequence[tuple[int, int]], max_parallelism: int) -> str | None:
    """Where ranges of key groups overlap or leave a gap; None if they cover all of them once."""
    expected = 0
    for first, last in sorted(ranges):
        if first != expected:
            return f"{'an overlap' if first < expected else 'a gap'} at key group {min(first, expected)}"
        expected = last + 1
    return None if expected == max_parallelism else f"an end at key group {expected - 1}"
