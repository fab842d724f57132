"""Spark's offset log as a value: the position of all sources at a batch, read from a query's folder and written to a
new one (PROTOCOL R19).

A position is a zip of `metadata`, the offsets of the last two batches, and each source's own log cut to what those
offsets name. Nothing is copied from `commits/`; restoring creates the two commit files that Spark needs. Folders are
temporary: every attempt has a new one, and none is ever edited.
"""

import io
import json
import uuid
import zipfile
import zlib
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from penstock.connectors.kafka.partition_offsets import from_json_form
from penstock.errors import CheckpointCorruptError, CheckpointError, SnapshotRefusedError

COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
MAX_FILES = 100_000
MAX_BYTES = 1 << 30


def capture(folder: Path, batch_id: int) -> bytes:
    """The position after batch `batch_id`, -1 for before the first. Called inside the batch, before Spark goes on."""
    files: dict[str, bytes] = {"metadata": (folder / "metadata").read_bytes()}
    for number in (batch_id - 1, batch_id):
        if number >= 0:
            files[f"offsets/{number}"] = (folder / "offsets" / str(number)).read_bytes()
    ends = _log_offsets(files[f"offsets/{batch_id}"]) if batch_id >= 0 else []
    sources = folder / "sources"
    for source in sorted(sources.iterdir()) if sources.is_dir() else []:
        end = ends[int(source.name)] if source.name.isdigit() and int(source.name) < len(ends) else None
        files |= _cut_source_log(source, end)
    return _pack(files)


def build(folder: Path, position: bytes | None, batch_id: int, *, new_query_id: bool = False) -> None:
    """Make a folder from which a query continues after `batch_id`."""
    folder.mkdir(parents=True)
    if position is None:
        return
    for name, data in _unpack(position).items():
        if name.startswith("offsets/"):
            _log_offsets(data)  # find damage before a query is started on it
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    if new_query_id:
        (folder / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    commits = folder / "commits"
    commits.mkdir()
    for number in (batch_id - 1, batch_id):
        if number >= 0:
            (commits / str(number)).write_text(COMMIT)


def arrange(position: bytes, saved: Sequence[str], current: Sequence[str]) -> bytes | None:
    """A position for a program with other sources or another order of them; None if none of the old ones is left.

    `saved` and `current` are the sources' uids. Spark identifies a source by its index, so its offset line and its
    folder `sources/K` move with its uid. A new source has no offset, so it begins at its initial one.
    """
    if list(saved) == list(current) or not saved:
        return position
    files = _unpack(position)
    places = [saved.index(uid) if uid in saved else None for uid in current]
    arranged: dict[str, bytes] = {}
    for name, data in files.items():
        folder, _, rest = name.partition("/")
        if folder == "offsets":
            arranged[name] = _arranged_lines(data, places, len(saved))
        elif folder == "sources":
            index, _, file = rest.partition("/")
            old = int(index) if index.isdigit() else -1
            if old in places:
                arranged[f"sources/{places.index(old)}/{file}"] = data
        else:
            arranged[name] = data
    return _pack(arranged) if any(place is not None for place in places) else None


def _arranged_lines(data: bytes, places: Sequence[int | None], count: int) -> bytes:
    """The offsets of a batch for the new sources, one line for each."""
    lines = data.decode(errors="replace").splitlines()
    _require_version(lines)
    head, offsets = lines[:2], lines[2:]
    if len(offsets) != count:
        raise SnapshotRefusedError(
            "UNMAPPED_SOURCES",
            f"the snapshot has {len(offsets)} positions for {count} sources, because one of them reads several "
            f"streams, and it is not known which belongs to which; keep the sources and their order as they were",
        )
    return "\n".join([*head, *("-" if place is None else offsets[place] for place in places)]).encode()


def last_offsets(position: bytes) -> list[Any]:
    """For each source the offset of a position, as it is logged; empty before the first batch."""
    files = {name: data for name, data in _unpack(position).items() if name.startswith("offsets/")}
    if not files:
        return []
    lines = files[max(files, key=lambda name: int(name.partition("/")[2]))].decode(errors="replace").splitlines()
    _require_version(lines)
    return [None if line == "-" else json.loads(line) for line in lines[2:]]


def batch_files(folder: Path, batch_id: int) -> list[list[str]]:
    """For each source the addresses of the files that a batch reads of it."""
    before = folder / "offsets" / str(batch_id - 1)
    starts = _log_offsets(before.read_bytes()) if before.exists() else []
    found = []
    for index, end in enumerate(_log_offsets((folder / "offsets" / str(batch_id)).read_bytes())):
        start = starts[index] if index < len(starts) else None
        files: list[str] = []
        for number in range(0 if start is None else start + 1, 0 if end is None else end + 1):
            entries = _entries(folder / "sources" / str(index), number)
            files += [entry["path"] for entry in entries if entry["batchId"] == number]
        found.append(files)
    return found


def batch_rows(folder: Path, batch_id: int) -> list[int]:
    """For each source that reads topics how many offsets a batch covers; 0 for others, and where it is not known."""
    before = read_offsets(folder, batch_id - 1) if (folder / "offsets" / str(batch_id - 1)).exists() else []
    ends = read_offsets(folder, batch_id)
    return [_offsets_between(start, end) for start, end in zip_longest(before[: len(ends)], ends)]


def _offsets_between(start: Any, end: Any) -> int:
    try:
        starts, ends = from_json_form(start), from_json_form(end)
    except CheckpointCorruptError:
        return 0  # another form: it does not read topics
    return sum(max(0, ends[partition] - starts[partition]) for partition in starts.keys() & ends.keys())


def _entries(source: Path, number: int) -> list[dict[str, Any]]:
    """The entries of a file source's log under a number; a compaction repeats all earlier entries.

    A stream that is used twice has two offsets and one log: the second has no entries.
    """
    for path in (source / str(number), source / f"{number}.compact"):
        if path.exists():
            return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return []


def read_offsets(folder: Path, batch_id: int) -> list[Any]:
    """For each source its offset after a batch as a JSON value; None for one that was not read yet."""
    return _offsets((folder / "offsets" / str(batch_id)).read_bytes()) if batch_id >= 0 else []


def _log_offsets(data: bytes) -> list[int | None]:
    """For each source the `logOffset` of its offset line; None for sources that have none (not a file source)."""
    return [value.get("logOffset") if isinstance(value, dict) else None for value in _offsets(data)]


def _offsets(data: bytes) -> list[Any]:
    lines = data.decode(errors="replace").splitlines()
    _require_version(lines)
    offsets: list[Any] = []
    for line in lines[2:]:
        try:
            offsets.append(json.loads(line) if line != "-" else None)
        except (ValueError, RecursionError) as error:
            raise CheckpointCorruptError("source position", "offsets in JSON", repr(line[:40])) from error
    return offsets


def _require_version(lines: Sequence[str]) -> None:
    if not lines or lines[0] != "v1":
        raise CheckpointError(f"offset log of version {lines[0][:40] if lines else '?'!r}; this release reads v1")


def _cut_source_log(source: Path, end: int | None) -> dict[str, bytes]:
    """The files of one source's log that belong to the position.

    A file source numbers its entries itself: those above `logOffset` belong to later batches, and those below the
    newest compaction are contained in it. The compaction before it is kept for its number: Spark derives the interval
    of compactions from the last two, and guesses another if it finds only one. Other sources keep only their initial
    offset there, which belongs to every position.
    """
    names = [path.name for path in source.iterdir() if path.name.removesuffix(".compact").isdigit()]
    if end is not None:
        names = [name for name in names if _number(name) <= end]
        compactions = sorted((name for name in names if name.endswith(".compact")), key=_number)
        first = _number(compactions[-1]) if compactions else 0
        names = [name for name in names if _number(name) >= first]
        if {_number(name) for name in names} != set(range(first, end + 1)):
            raise CheckpointError(f"entries up to {end} of the source log {str(source)!r} are gone")
        names += compactions[-2:-1]
    kept = {name: (source / name).read_bytes() for name in sorted(names)}
    # Without an offset it is another kind of source, or a file source before its first batch.
    return {f"sources/{source.name}/{n}": d for n, d in kept.items() if end is not None or not _is_file_entry(d)}


def _number(name: str) -> int:
    return int(name.removesuffix(".compact"))


def _is_file_entry(data: bytes) -> bool:
    lines = data.decode(errors="replace").splitlines()
    return len(lines) > 1 and '"batchId"' in lines[1] and '"path"' in lines[1]


def _pack(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name), files[name], zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _unpack(position: bytes) -> dict[str, bytes]:
    """The files of a position; only plain relative names, within limits."""
    try:
        with zipfile.ZipFile(io.BytesIO(position)) as archive:
            infos = archive.infolist()
            if len(infos) > MAX_FILES or sum(info.file_size for info in infos) > MAX_BYTES:
                raise CheckpointCorruptError("source position", "a small archive", f"{len(infos)} files")
            for info in infos:
                parts = Path(info.filename).parts
                is_outside = info.filename.startswith("/") or ".." in parts or "\\" in info.filename
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    # Other compressions are expanded as a whole, whatever size the archive claims.
                    raise CheckpointCorruptError("source position", "deflated files", f"{info.filename!r} is not")
                if is_outside or not parts or parts[0] not in ("metadata", "offsets", "sources"):
                    raise CheckpointCorruptError(
                        "source position", "files of an offset log", repr(info.filename), "PATH_OUTSIDE_ROOT"
                    )
            return {info.filename: archive.read(info) for info in infos}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise CheckpointCorruptError("source position", "a zip archive", str(error)) from error
