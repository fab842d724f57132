"""What the benchmark says while it runs: one line per round, and a live line where there is a terminal."""

from typing import TextIO


class Console:
    """Writes to one stream. The live line is replaced by whatever is said next; without a terminal it is left out."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._live_width = 0

    def say(self, text: str) -> None:
        """A line that stays."""
        self._clear()
        print(text, file=self._stream, flush=True)

    def live(self, text: str) -> None:
        """A line that is replaced by the next one."""
        if self._is_terminal:
            self._clear()
            print(text, end="", file=self._stream, flush=True)
            self._live_width = len(text)

    def _clear(self) -> None:
        if self._live_width:
            print("\r" + " " * self._live_width + "\r", end="", file=self._stream)
            self._live_width = 0
