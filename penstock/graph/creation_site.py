"""Where the program created an operator: the line of `.map(...)`, which errors name next to the line that raised."""

import linecache
import os
import sys
from pathlib import Path
from types import FrameType

PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
_CODE_CHARS = 120


def creation_site() -> str:
    """The program's line that is being executed, as `file:line: code`: the innermost frame outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return ""
    linecache.checkcache(frame.f_code.co_filename)  # the file may have been edited and run again in this process
    code = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals).strip()
    code = code if len(code) <= _CODE_CHARS else code[: _CODE_CHARS - 1] + "…"
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" + (f": {code}" if code else "")


def is_internal(filename: str) -> bool:
    """Return whether a frame of this file belongs to this package or to Python's start machinery."""
    return filename.startswith((PACKAGE, "<frozen "))


def site_line(site: str) -> str:
    """The `file:line` of a creation site, without its code."""
    head, separator, code = site.partition(": ")
    return head if separator and code else site
