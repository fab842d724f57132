"""How long a thread that runs Python lets the others wait.

The thread of an epoch rarely waits for anything. Python lets it run for 5 ms before another thread gets a turn, and a
query needs a turn in every TaskManager. While queries come, turns are short; switching costs the epoch little. Without
queries everything is as Python has it.
"""

import sys

SHORT_S = 0.0005


class ThreadTurns:
    """The turns of one process. Any thread; at worst a query has to wait for a long turn."""

    def __init__(self, short_s: float = SHORT_S) -> None:
        self._short_s = short_s
        self._long_s = sys.getswitchinterval()
        self._is_short = False
        self._was_queried = False

    def note_query(self) -> None:
        """A query is about to be answered."""
        self._was_queried = True
        if not self._is_short:
            self._is_short = True
            sys.setswitchinterval(self._short_s)

    def note_heartbeat(self) -> None:
        """Called at intervals: turns get long again if there was no query since the last call."""
        if self._is_short and not self._was_queried:
            self._is_short = False
            sys.setswitchinterval(self._long_s)
        self._was_queried = False
