"""Points in time and watermarks as users read them."""

from datetime import datetime, timezone

from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK


def watermark_text(watermark: int | None) -> str:
    """A watermark as text.

    >>> watermark_text(None), watermark_text(1_700_000_000_123), watermark_text(2**63 - 1)
    ('none', '2023-11-14T22:13:20.123Z', 'end of input')
    """
    if watermark is None or watermark == MIN_WATERMARK:
        return "none"
    if watermark == MAX_WATERMARK:
        return "end of input"
    return time_text(watermark)


def time_text(milliseconds: int) -> str:
    """A point in time in UTC, or the number if it is outside the calendar."""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
