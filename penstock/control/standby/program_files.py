"""Which files make up a program: its own, and what it imports from the folder that it is in."""

import ast
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from penstock.errors import UsageError
from penstock.model.options.availability_options import HA_FILES

MAX_BYTES = 64 * 1024 * 1024
NEVER = frozenset(("penstock", "pyspark", "pyflink"))
"""Installed everywhere; a folder of that name beside the program is a checkout of the source code."""


def program_files(job_file: Path, patterns: Iterable[str] = ()) -> dict[str, bytes]:
    """The files by their paths below the program's folder. UsageError if together they are too large.

    Imports are found in the text of the program and of what it imports, also inside functions, and among the modules
    that are loaded now. A package is taken whole, with its data files. `patterns` add other files.
    """
    job_file = job_file.resolve()
    folder = job_file.parent
    found: dict[str, bytes] = {}
    size = 0
    for path in _closure(job_file, folder, patterns):
        name = path.relative_to(folder).as_posix()
        if name in found:
            continue
        try:
            found[name] = path.read_bytes()
        except OSError as error:
            raise UsageError(f"--ha cannot store {str(path)!r}, which belongs to the program: {error}") from error
        size += len(found[name])
        if size > MAX_BYTES:
            raise UsageError(
                f"--ha stores at most {MAX_BYTES >> 20} MiB of a program, and {str(folder)!r} has more that it imports "
                f"(up to {name!r}); install large packages on every machine instead"
            )
    return found


def _closure(job_file: Path, folder: Path, patterns: Iterable[str]) -> Iterator[Path]:
    yield job_file
    pending = [*_imported_names(job_file), *_loaded_names(folder)]
    seen: set[str] = set(NEVER)
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        for path in _files_of(folder, name):
            yield path
            if path.suffix == ".py":
                pending += _imported_names(path)
    for pattern in patterns:
        is_below = not Path(pattern).is_absolute() and ".." not in Path(pattern).parts
        matches = [path for path in sorted(folder.glob(pattern)) if path.is_file()] if is_below else []
        if not matches or any(not path.resolve().is_relative_to(folder) for path in matches):
            raise UsageError(f"{HA_FILES.key}: {pattern!r} matches no file below {str(folder)!r}, or one elsewhere")
        yield from matches


def _files_of(folder: Path, name: str) -> Iterator[Path]:
    """The files of the module or package with this name, if it is in the folder."""
    package = folder / name
    if package.is_dir() and any(package.glob("**/*.py")):
        for place, folders, files in os.walk(package):
            folders[:] = sorted(inner for inner in folders if inner != "__pycache__" and not inner.startswith("."))
            yield from (Path(place) / file for file in sorted(files) if not file.endswith(".pyc"))
    for suffix in (".py", *EXTENSION_SUFFIXES):
        path = folder / f"{name}{suffix}"
        if path.is_file():
            yield path


def _imported_names(path: Path) -> Iterator[str]:
    """The first part of everything that a module imports; nothing for text that is not Python."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield node.module.partition(".")[0]


def _loaded_names(folder: Path) -> Iterator[str]:
    """The first part of the names of loaded modules whose files are in the folder."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        top = name.partition(".")[0]
        if isinstance(file, str) and top != "__main__" and Path(file).is_relative_to(folder):
            parts = Path(file).relative_to(folder).parts
            if parts[0].partition(".")[0] == top:  # otherwise it was found through another entry of sys.path
                yield top
