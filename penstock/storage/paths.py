"""Paths inside a storage: relative, with `/`, and always below its root."""

from typing import TypeAlias

from penstock.errors import PathOutsideError, StorageError

Paths: TypeAlias = list[str]
"""The result of `Storage.list`. An alias, because a method `list` hides the type inside its class."""

TEMPORARY_MARK = "~"
"""Separates a file's name from the random part of the temporary file that becomes it."""
MAX_PATH_CHARACTERS = 1024
MAX_PART_BYTES = 200


def confine(path: str) -> str:
    """The path itself, if it stays below the root.

    >>> confine("chk-7/_metadata")
    'chk-7/_metadata'
    """
    reason = _problem(path)
    if reason is not None:
        raise PathOutsideError(f"path {path!r} {reason}; expected a relative path below the storage's root")
    return path


def confine_new(path: str) -> str:
    """The path itself, if a file of that name may be written: names with `~` are the storage's own."""
    if TEMPORARY_MARK in path:
        raise StorageError(f"path {path!r} contains {TEMPORARY_MARK!r}, which marks temporary files")
    return confine(path)


def is_confined(path: str) -> bool:
    """Whether the path stays below the root."""
    return _problem(path) is None


def folder_of(path: str) -> str:
    """The folder part of a path, empty for a file at the root."""
    return path.rpartition("/")[0]


def _problem(path: str) -> str | None:
    if not path:
        return "is empty"
    if len(path) > MAX_PATH_CHARACTERS:
        return f"is longer than {MAX_PATH_CHARACTERS} characters"
    if "\\" in path or ":" in path or not path.isprintable():
        return "contains a backslash, a colon or a control character"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "is absolute, or has an empty part, '.' or '..'"
    if any(len(part.encode("utf-8", "surrogatepass")) > MAX_PART_BYTES for part in parts):
        return f"has a part longer than {MAX_PART_BYTES} bytes"
    return None
