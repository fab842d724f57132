"""Files of a checkpoint that are torn, missing, flipped, empty, swapped or from the future: F06 to F10, F28, and F11.

The sink commits, so that going back to an older checkpoint would commit rows twice: the job must refuse with exit code
5 and name the file (PROTOCOL R24). When the file is back, it goes on and is exact.
"""

import filecmp
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import psutil
from msgspec.structs import replace

from penstock.checkpoint.file_names import log_entry_path, state_file_path
from penstock.checkpoint.log.entries import Complete, encode_record
from penstock.checkpoint.snapshot.manifest import FORMAT_VERSION, digest, file_paths, load_manifest
from penstock.model.ids import StageId, SubtaskId
from tests.faults.matrix.case import MatrixCase
from tests.faults.matrix.scene import Scene
from tests.waiting import wait_until

CORRUPT_EXIT = 5
FUTURE_VERSION = 999
Damage = Callable[[Scene, Path, list[Path]], list[Path]]
"""Does it to the newest checkpoint, its manifest and its other files; returns those of which one must be named."""


def damaged_checkpoint(scene: Scene) -> Sequence[str]:
    _crash_when_committed(scene, 4)
    said = [_try_refusal(scene, damage) for damage in (torn_manifest, torn_state, missing, flipped, empty, swapped)]
    scene.finish(scene.start())
    return said


def future_version(scene: Scene) -> Sequence[str]:
    _crash_when_committed(scene, 3)
    said = _refusal(scene, from_the_future, f"version {FUTURE_VERSION}", f"version {FORMAT_VERSION}")
    scene.finish(scene.start())
    return [said]


def orphans(scene: Scene) -> Sequence[str]:
    first = scene.start()
    scene.await_checkpoints(first, 2)
    scene.crash(first)
    own = [state_file_path(1, 900, SubtaskId(StageId("s0"), 0)), "chk-901/_metadata~0123456789ab"]
    foreign = ["shared/notes.txt", "README", "chk-latest/copy.bin", "backup/chk-1/_metadata"]
    for name in (*own, *foreign):
        path = scene.place.job_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
    scene.foreign |= set(foreign)  # judged: all of them are still there, and nothing else is left
    scene.finish(scene.start())
    left = [name for name in own if (scene.place.job_folder / name).exists()]
    assert not left, f"leftovers of our own were not swept: {left}"
    return [f"{len(own)} leftovers swept, {len(foreign)} foreign files kept"]


def _crash_when_committed(scene: Scene, count: int) -> None:
    """Let a driver die when output of the newest checkpoint may be visible: going back behind it is refused then."""
    job = scene.start()
    scene.await_checkpoints(job, count)
    process = psutil.Process(job.pid)

    def is_visible() -> bool:
        process.send_signal(signal.SIGSTOP)
        view = scene.view()
        if view.commits_begun >= view.lineage[-1].checkpoint:
            return True
        process.send_signal(signal.SIGCONT)
        return False

    wait_until(is_visible)
    scene.crash(job)


def _try_refusal(scene: Scene, damage: Damage) -> str:
    """The same for one of several faults: one that does not hit is noted, and the others have their turn."""
    try:
        return _refusal(scene, damage)
    except AssertionError as error:
        scene.wrong.append(str(error))
        return ""


def _refusal(scene: Scene, damage: Damage, *words: str) -> str:
    """Start on a damaged checkpoint: it must refuse and name the file. Afterwards everything is as before."""
    with _copy_of(scene.place.job_folder):
        complete = scene.view().lineage[-1]
        files = [scene.place.job_folder / path for path in sorted(file_paths(load_manifest(scene.storage, complete)))]
        named = damage(scene, scene.place.job_folder / complete.metadata_path, files)
        job = scene.start()
        exit_code = scene.await_exit(job)
        errors = [line for line in job.said().splitlines() if line.startswith("error: ")]
        assert exit_code == CORRUPT_EXIT, f"{damage.__name__}: exit code {exit_code}:\n{job.log_tail()}"
        names = [str(path.relative_to(scene.place.job_folder)) for path in named]
        said = [name for name in names if name in errors[-1]]
        assert said, f"{damage.__name__}: the error names none of {names}: {errors[-1]}"
        assert all(word in errors[-1] for word in words), f"the error does not say {words}: {errors[-1]}"
    return f"refused with exit code {exit_code}, naming {said[0][:30]}"


@contextmanager
def _copy_of(folder: Path) -> Iterator[None]:
    """The folder is brought back as it was, but for what was added to the log: claims and ends of attempts."""
    copy = folder.with_name(folder.name + ".copy")
    shutil.copytree(folder, copy)
    try:
        yield
    finally:
        for path in copy.rglob("*"):
            if path.is_file():
                target = folder / path.relative_to(copy)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)
        shutil.rmtree(copy)


def torn_manifest(scene: Scene, manifest: Path, _: list[Path]) -> list[Path]:
    os.truncate(manifest, scene.chance.randrange(1, manifest.stat().st_size))
    return [manifest]


def torn_state(scene: Scene, _: Path, files: list[Path]) -> list[Path]:
    path = scene.chance.choice(files)
    os.truncate(path, scene.chance.randrange(1, path.stat().st_size))
    return [path]


def missing(scene: Scene, _: Path, files: list[Path]) -> list[Path]:
    path = scene.chance.choice(files)
    path.unlink()
    return [path]


def flipped(scene: Scene, _: Path, files: list[Path]) -> list[Path]:
    path = scene.chance.choice(files)
    data = bytearray(path.read_bytes())
    data[scene.chance.randrange(len(data))] ^= 1 << scene.chance.randrange(8)
    path.write_bytes(data)
    return [path]


def empty(scene: Scene, _: Path, files: list[Path]) -> list[Path]:
    path = scene.chance.choice(files)
    path.write_bytes(b"\0" * path.stat().st_size)
    return [path]


def swapped(_: Scene, __: Path, files: list[Path]) -> list[Path]:
    """Two files, each whole, under each other's name; of the same size if there are such: only hashes differ.

    Files that are the same, such as RocksDB's `CURRENT` of two subtasks, would do no damage.
    """
    different = [pair for pair in combinations(files, 2) if not filecmp.cmp(*pair, shallow=False)]
    left, right = min(different, key=lambda pair: _size_difference(*pair))
    a, b = left.read_bytes(), right.read_bytes()
    left.write_bytes(b)
    right.write_bytes(a)
    return [left, right]


def from_the_future(scene: Scene, manifest: Path, _: list[Path]) -> list[Path]:
    """A manifest of a later format, with the right checksum in the log."""
    data = {**json.loads(manifest.read_bytes()), "format_version": FUTURE_VERSION}
    manifest.write_bytes(json.dumps(data).encode())
    record = [record for record in scene.entries() if isinstance(record.entry, Complete)][-1]
    assert isinstance(record.entry, Complete)
    entry = replace(record.entry, metadata_sha256=digest(manifest.read_bytes()))
    (scene.place.job_folder / log_entry_path(record.number)).write_bytes(encode_record(replace(record, entry=entry)))
    return [manifest]


def _size_difference(left: Path, right: Path) -> int:
    return abs(left.stat().st_size - right.stat().st_size)


IN_FILES = {"sink": "file", "inline": "0 b"}
CASES = (
    MatrixCase(
        (
            "F06 torn manifest",
            "F06 torn state file",
            "F07 missing file",
            "F08 flipped bit",
            "F09 zero-filled file",
            "F10 two files swapped",
        ),
        "damage",
        damaged_checkpoint,
        {**IN_FILES, "parallelism": "2", "backend": "rocksdb"},
    ),
    MatrixCase(("F28 manifest of a newer format",), "damage", future_version, {**IN_FILES, "backend": "hashmap"}),
    MatrixCase(("F11 orphans and foreign files",), "damage", orphans, {"backend": "rocksdb-full"}),
)
