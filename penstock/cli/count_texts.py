"""Numbers of things as users read them."""


def count_of_rows(count: int) -> str:
    """A number of rows.

    >>> count_of_rows(0), count_of_rows(1), count_of_rows(1200)
    ('0 rows', '1 row', '1200 rows')
    """
    return f"{count} row" if count == 1 else f"{count} rows"
