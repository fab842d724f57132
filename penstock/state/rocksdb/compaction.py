"""Compaction of states in the background: frees the space of removed entries while epochs run."""

import logging
import threading
from collections.abc import Callable, Sequence

from penstock.errors import StateBackendError


class Compaction:
    """Runs at most one at a time. Requests during a compaction are left to the next sweep."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def start(self, compact: Callable[[str], None], names: Sequence[str]) -> None:
        """Compact these states, unless one is still being compacted."""
        if names and not self.is_running:
            self._thread = threading.Thread(target=_compact, args=(compact, names), daemon=True)
            self._thread.start()

    @property
    def is_running(self) -> bool:
        """A state is being compacted."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Wait until no compaction runs."""
        if self._thread is not None:
            self._thread.join()


def _compact(compact: Callable[[str], None], names: Sequence[str]) -> None:
    for name in names:
        try:
            compact(name)
        except StateBackendError:
            # The entries are removed, only their space is not freed. Closing a store ends a compaction this way too.
            logging.getLogger("penstock.state").warning("state %r was not compacted", name, exc_info=True)
