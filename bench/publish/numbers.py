"""Numbers in the documentation that come from the results, each marked with where it is there.

`2.4<!-- bench: w3-big-250000/ratios/bytewax -->` is the value at that path of `results.json`, rounded as it is written:
`2.4` to a tenth, `180,000` to ten thousand or finer.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
MARKED = re.compile(r"(?:(?P<number>\d[\d,]*(?:\.\d+)?)[^\S\n]?)?<!-- bench:\s*(?P<path>[^\s>]*)\s*-->")


@dataclass(frozen=True)
class MarkedNumber:
    """A number of a page, and the path of its value."""

    shown: str
    path: str


def marked_numbers(text: str) -> Iterator[MarkedNumber]:
    """All of a page, code apart; one without a number before its mark is empty.

    >>> list(marked_numbers("It is 2.4<!-- bench: w3/ratios/bytewax --> times as fast."))
    [MarkedNumber(shown='2.4', path='w3/ratios/bytewax')]
    """
    for match in MARKED.finditer(CODE.sub("", text)):
        yield MarkedNumber(match["number"] or "", match["path"])


def problem(number: MarkedNumber, document: dict[str, Any]) -> str | None:
    """What is wrong with it."""
    value: Any = document["cases"]
    for step in number.path.split("/"):
        if not isinstance(value, dict) or step not in value:
            return f"{number.path}: there is no {step!r} in results.json"
        value = value[step]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{number.path} is not a number"
    if not number.shown or not is_rounded(number.shown, value):
        return f"{number.shown or 'no number'} is shown for {number.path}, which is {value:,}"
    return None


def is_rounded(shown: str, value: float) -> bool:
    """Whether a text is a number rounded to as many digits as it has, zeros at the end of a whole number apart.

    >>> is_rounded("2.4", 2.38), is_rounded("2.4", 2.46), is_rounded("180,000", 176_123), is_rounded("176,000", 176_123)
    (True, False, True, True)
    >>> is_rounded("170,000", 176_123), is_rounded("2.40", 2.38), is_rounded("0", 0.2)
    (False, False, True)
    """
    digits = shown.replace(",", "")
    number = Decimal(digits)
    if "." in digits:
        step = Decimal(1).scaleb(-len(digits.partition(".")[2]))
    else:
        step = Decimal(10) ** (len(digits) - len(digits.rstrip("0")) if number else 0)
    return abs(number - Decimal(str(value))) <= step / 2
