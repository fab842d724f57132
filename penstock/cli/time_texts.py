"""Points in time and watermarks as text for users."""

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


def lag_text(watermark: int | None, now_ms: int) -> str:
    """How far the watermark is behind the clock; empty if there is none, or if it is ahead.

    >>> lag_text(0, 90_500), lag_text(None, 0), lag_text(1, 0)
    (' (1 min 30 s behind)', '', '')
    """
    if watermark is None or watermark in (MIN_WATERMARK, MAX_WATERMARK):
        return ""
    seconds = (now_ms - watermark) / 1000
    return f" ({duration_text(seconds)} behind)" if seconds >= 0 else ""


def duration_text(seconds: float) -> str:
    """A duration with its two largest units.

    >>> duration_text(2.34), duration_text(75), duration_text(7_260), duration_text(200_000)
    ('2.3 s', '1 min 15 s', '2 h 1 min', '2 d 7 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    place = next(place for place, (size, _) in enumerate(units) if seconds >= size)
    (size, unit), (small, small_unit) = units[place : place + 2]
    return f"{int(seconds // size)} {unit} {int(seconds % size // small)} {small_unit}"
