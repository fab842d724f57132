"""Options of table sinks. They are part of the program's plan, so secrets come from the environment instead."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from penstock.errors import ArgumentError, ArgumentValueError

Options = tuple[tuple[str, str], ...]
_SECRET = re.compile(r"secret|passw|token|credential|access.?key|account.?key|api.?key|private|sas\b", re.I)


def public_options(options: Mapping[str, str] | Options, what: str, instead: str) -> Options:
    """The options as plain data. Raises ArgumentValueError for one that looks like a secret, without repeating it."""
    pairs = tuple(sorted(options.items() if isinstance(options, Mapping) else options))
    for key, value in pairs:
        if not isinstance(key, str) or not isinstance(value, str):
            raise ArgumentError(f"{what} takes texts, not {key!r} of type {type(value).__name__}")
        if _SECRET.search(key) or _has_password(value):
            raise ArgumentValueError(
                f"{what}: {key!r} is or contains a secret, and would be stored with the program's plan; {instead}"
            )
    return pairs


def _has_password(value: str) -> bool:
    try:
        return urlsplit(value).password is not None
    except ValueError:  # not an address
        return False
