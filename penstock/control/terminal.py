"""Everything that is printed, by commands and by running jobs: results on stdout, messages on stderr.

Either stream may be closed, be a pipe without a reader, or be limited to ASCII.
"""

import io
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from penstock.errors import StorageError

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


@dataclass
class Mode:
    """How the running command prints; set by its flags."""

    json: bool = False
    debug: bool = False


MODE = Mode()


def open_streams() -> None:
    """Reopen standard streams that the caller has closed, and let none of them fail on a character."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free descriptor is this one. Otherwise the next socket or file would get it.
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def discard_output(number: int) -> None:
    """Discard further output on stdout (1) or stderr (2): nobody reads it."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, number)
    os.close(sink)


def print_result(text: str, data: object) -> bool:
    """Print a result: `text`, or `data` with `--json`. False if nobody reads it any more."""
    try:
        print(_json_text(data) if MODE.json else visible(text), flush=True)
    except BrokenPipeError:
        discard_output(1)
        return False
    except OSError as error:
        discard_output(1)
        MODE.json = False  # stdout does not work
        raise StorageError(f"the result cannot be printed: {error.strerror}") from error
    return True


def print_error(message: str, exit_code: int) -> None:
    """Print why the command failed: a line on stderr, or with `--json` a document on stdout."""
    if MODE.json:
        _print(1, _json_text({"errors": [message], "code": exit_code}))
    else:
        _print(2, f"error: {visible(message)}")


def print_warning(message: str) -> None:
    """Print a warning on stderr."""
    print_message(f"warning: {message}")


def print_message(message: str) -> None:
    """Print a line on stderr: progress, or what a job does on its own."""
    _print(2, visible(message))


def print_progress(text: str, *, is_last: bool) -> None:
    """Replace the current line of stderr. The last call ends the line."""
    _print(2, f"\r{visible(text)}", end="\n" if is_last else "")


def print_rows(lines: Sequence[str]) -> None:
    """Print the output of a job's `print` sinks as it is. Raises OSError if it cannot be written."""
    if lines:
        sys.stdout.write("".join(line + "\n" for line in lines))
        sys.stdout.flush()


def _print(number: int, text: str, end: str = "\n") -> None:
    """Print a text; if nobody reads it, the exit code is all that remains."""
    try:
        print(text, end=end, file=sys.stdout if number == 1 else sys.stderr, flush=True)
    except OSError:
        discard_output(number)


def _json_text(data: object) -> str:
    """A document that stdout can hold: in ASCII where its encoding may lack a character, which JSON can escape."""
    text = msgspec.json.encode(data).decode()
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return text if is_utf8 else _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)


def visible(text: str) -> str:
    """Text from any source, with control characters and changes of the text direction escaped.

    >>> visible("red \\x1b[31m alert\\n")
    'red \\\\x1b[31m alert\\n'
    """
    return _CONTROL_CHARACTERS.sub(lambda found: ascii(found[0])[1:-1], text)


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
