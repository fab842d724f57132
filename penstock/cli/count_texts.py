"""Counts and sizes as text for users."""


def count_of_rows(count: int) -> str:
    """A number of rows as text.

    >>> count_of_rows(0), count_of_rows(1), count_of_rows(1200)
    ('0 rows', '1 row', '1200 rows')
    """
    return f"{count} row" if count == 1 else f"{count} rows"


def bytes_text(count: int) -> str:
    """A readable number of bytes.

    >>> bytes_text(999), bytes_text(1_000), bytes_text(123_456_789)
    ('999 B', '1.0 kB', '123.5 MB')
    """
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 999.95:
            break
        size, unit = size / 1000, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
