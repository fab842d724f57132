"""The records of a stream, returned to the program."""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any


class CloseableIterator:
    """Iterates over records of a running job, in the order in which their epochs commit. Closing it ends the job."""

    def __init__(self, records: Iterator[Any], end: Callable[[], object]) -> None:
        self._records = records
        self._end = end
        self._closed = False

    def __iter__(self) -> "CloseableIterator":
        return self

    def __next__(self) -> Any:
        if self._closed:
            raise StopIteration
        return next(self._records)

    def next(self) -> Any:
        """The next record."""
        return next(self)

    def close(self) -> None:
        """End the job if it is still running; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._end()

    def __enter__(self) -> "CloseableIterator":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
