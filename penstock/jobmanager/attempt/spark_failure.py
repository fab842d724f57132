"""The error behind a failed Spark job, in the text that Spark makes of it."""

import re
from pathlib import Path

from penstock import errors
from penstock.errors import (
    ConnectorRefusedError,
    ConnectorUnavailableError,
    JobFailedError,
    PenstockError,
    RecordsLostError,
)

SOURCE_ERROR = re.compile(r"^penstock\.errors\.(\w+Error): (.+)$", re.MULTILINE)
SOURCE_ERRORS = {
    error.__name__: error for error in (ConnectorRefusedError, ConnectorUnavailableError, RecordsLostError)
}
"""Errors of sources that keep their class, which says whether trying again helps."""
TRACEBACK = "Traceback (most recent call last):\n"
FRAME = re.compile(r'^ +File "(?P<path>[^"]+)", line (?P<line>\d+), in (?P<name>.+)$', re.MULTILINE)
LIBRARIES = (str(Path(errors.__file__).parent), "/site-packages/", "/lib/python")
"""Frames below them are not the user's own code."""


def spark_failure(text: str) -> PenstockError:
    """The error of a source of ours if there is one, or else a JobFailedError with the reason in one line."""
    return error_in(text) or JobFailedError(f"the Spark query failed: {reason_in(text)}")


def error_in(text: str) -> PenstockError | None:
    """The error of a source of ours that one of Spark's Python processes has raised; Spark passes on its text.

    >>> error_in("StreamingQueryException: …\\npenstock.errors.RecordsLostError: records 5 to 7 were deleted")
    RecordsLostError('records 5 to 7 were deleted')
    """
    found = SOURCE_ERROR.search(text)
    if found is None:
        return None
    kind = SOURCE_ERRORS.get(found[1], JobFailedError)
    return kind(found[2].strip())


def reason_in(text: str) -> str:
    """The exception of a Python process with the user's own line, or the first line of Spark's text.

    >>> frames = '  File "/home/ada/job.py", line 7, in price\\n    return 1 / number\\n'
    >>> reason_in(f"An exception was thrown from the Python worker:\\n{TRACEBACK}{frames}ZeroDivisionError: by zero\\n")
    'ZeroDivisionError: by zero, in price (/home/ada/job.py:7)'
    >>> reason_in("[UNABLE_TO_SPILL] the disk is full\\n\\tat org.apache.spark…")
    '[UNABLE_TO_SPILL] the disk is full'
    """
    _, found, traceback = text.rpartition(TRACEBACK)
    raised = [line for line in traceback.splitlines() if line and not line[0].isspace()]
    if not found or not raised:
        return text.strip().splitlines()[0]
    own = [frame for frame in FRAME.finditer(traceback) if not any(part in frame["path"] for part in LIBRARIES)]
    place = f", in {own[-1]['name']} ({own[-1]['path']}:{own[-1]['line']})" if own else ""
    return f"{raised[0].strip()}{place}"
