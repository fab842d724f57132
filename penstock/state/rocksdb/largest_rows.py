"""The largest rows of one state, kept up to date while rows are written."""

LARGEST_ROWS = 10


class LargestRows:
    """Up to ten rows and their sizes. Of the rows that were written since the store was opened none is larger.

    A row that shrinks or goes makes room; rows written before it are not looked at again.
    """

    __slots__ = ("floor", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, int] = {}
        self.floor = -1
        """A new row has to be larger to count."""

    def note(self, row: bytes, size: int) -> None:
        """A row was written that is larger than `floor`, or one of `rows`."""
        self.rows[row] = size
        if len(self.rows) > LARGEST_ROWS:
            del self.rows[min(self.rows, key=self.rows.__getitem__)]
        self.floor = min(self.rows.values()) if len(self.rows) == LARGEST_ROWS else -1

    def drop(self, row: bytes) -> None:
        """One of `rows` was deleted."""
        del self.rows[row]
        self.floor = -1
