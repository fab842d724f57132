"""The largest rows of one state, kept up to date while rows are written."""

LARGEST_ROWS = 10


class LargestRows:
    """Up to ten rows and their sizes. No larger row was written since the store was opened.

    When a row shrinks or is deleted, smaller rows that were written before are not considered again.
    """

    __slots__ = ("floor", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, int] = {}
        self.floor = -1
        """Only larger rows are recorded."""

    def note(self, row: bytes, size: int) -> None:
        """Record a written row that is larger than `floor` or one of `rows`."""
        self.rows[row] = size
        if len(self.rows) > LARGEST_ROWS:
            del self.rows[min(self.rows, key=self.rows.__getitem__)]
        self.floor = min(self.rows.values()) if len(self.rows) == LARGEST_ROWS else -1

    def drop(self, row: bytes) -> None:
        """Remove one of `rows`, which was deleted."""
        del self.rows[row]
        self.floor = -1
