"""What commands print: results on stdout, messages on stderr, as text or as JSON.

Both streams may be closed, may be a pipe whose reader went away, and may know only ASCII.
"""

import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec


@dataclass
class Mode:
    """How the running command prints; set by its flags."""

    json: bool = False
    debug: bool = False


MODE = Mode()


def open_streams() -> None:
    """Make stdin, stdout and stderr usable, whatever the caller has closed, and unable to fail on a character."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one. Left free, the next socket or file would become stdout.
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def drop_stdout() -> None:
    """Send what is still to be printed nowhere, because the reader of the pipe is gone."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.close(sink)


def print_result(text: str, data: object) -> bool:
    """Print a result, `text` for people and `data` with `--json`. False once nobody reads it any more."""
    try:
        print(msgspec.json.encode(data).decode() if MODE.json else text, flush=True)
    except BrokenPipeError:
        drop_stdout()
        return False
    return True


def print_error(message: str, exit_code: int) -> None:
    """Why the command failed: a line on stderr, or with `--json` a document on stdout."""
    if MODE.json:
        print(msgspec.json.encode({"errors": [message], "code": exit_code}).decode(), flush=True)
    else:
        print(f"error: {message}", file=sys.stderr, flush=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, without lines around them.

    >>> print(table(["JOB", "EPOCH"], [["a", "12"], ["long", "3"]]))
    JOB   EPOCH
    a     12
    long  3
    """
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
