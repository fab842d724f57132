"""The audit log: one line in the driver's log for each request that may change something."""

import threading
import unicodedata
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from penstock.clock import Clock, SystemClock

FIELD_CHARS = 300


class AuditLog:
    """Appends to the driver's log. Thread safe; a log that cannot be written changes nothing else."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()

    def write(self, event: str, **fields: object) -> None:
        """Write one line: time, event and fields."""
        moment = datetime.fromtimestamp(self._clock.now_ms() / 1000, timezone.utc).isoformat(timespec="milliseconds")
        text = " ".join(f"{name}={printable(str(value))}" for name, value in fields.items())
        self.write_text(f"{moment} audit {event} {text}")

    def write_text(self, text: str) -> None:
        """Write trusted text as it is."""
        with self._lock, suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text + "\n")


def printable(text: str) -> str:
    """Untrusted text in one line, without control characters and changes of the text direction.

    >>> printable("a\\x1b[31mb\\nc")
    'a?[31mb?c'
    """
    shown = "".join("?" if unicodedata.category(letter)[0] in "CZ" and letter != " " else letter for letter in text)
    return shown if len(shown) <= FIELD_CHARS else shown[:FIELD_CHARS] + "…"
