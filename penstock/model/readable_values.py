"""Values in messages: short, and never an error of their own."""

from typing import Any

MAX_CHARS = 200


def shortened(value: Any, limit: int = MAX_CHARS) -> str:
    """The value's `repr` in one line of at most `limit` characters; its type if `repr` fails.

    >>> shortened("a" * 500, 12)
    "'aaaaaaaaaa…"
    """
    try:
        text = repr(value)
    except Exception as error:  # a `repr` of the user's may raise anything
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    if "\n" in text:
        text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
