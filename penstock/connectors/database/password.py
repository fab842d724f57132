"""Passwords: never shown, and never sent to another process."""

import os
import re
from collections.abc import Callable
from urllib.parse import quote, urlsplit, urlunsplit

from penstock.errors import UsageError

_REFERENCE = re.compile(r"\$\{(?P<name>\w+)\}")
HIDDEN = "***"


class Password:
    """A password that only the process that created it can read: text, a function that returns it, or `${VARIABLE}`.

    >>> Password("secret")
    Password('***')
    """

    def __init__(self, source: str | Callable[[], str]) -> None:
        self._source: str | Callable[[], str] | None = source

    def __call__(self) -> str:
        """The current password: functions are called and variables are read for each connection."""
        if self._source is None:
            raise UsageError("a password stays in the process that received it; name an environment variable instead")
        return self._source() if callable(self._source) else _from_environment(self._source)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({HIDDEN!r})"

    def __reduce__(self) -> tuple[Callable[..., "Password"], tuple[str, ...]]:
        """Pickle only the name of a variable: other processes of the job do not connect."""
        is_reference = isinstance(self._source, str) and _REFERENCE.fullmatch(self._source)
        return _unpickled, (str(self._source),) if is_reference else ()


def as_password(source: "str | Callable[[], str] | Password | None") -> Password | None:
    """Wrap what the user passed as a password, so that nothing shows it."""
    return source if source is None or isinstance(source, Password) else Password(source)


def split_url(url: str) -> tuple[str, Password | None]:
    """The URL without its password, and the password."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    name, colon, secret = user.partition(":")
    if not colon:
        return url, None
    return urlunsplit(parts._replace(netloc=f"{name}{at}{place}")), Password(secret)


def with_password(url: str, password: Password | None) -> str:
    """The URL with the password, for a driver; never to be shown."""
    if password is None:
        return url
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password(), safe='')}{at or '@'}{place}"))


def _unpickled(*reference: str) -> Password:
    if reference:
        return Password(reference[0])
    password = Password("")
    password._source = None
    return password


def _from_environment(text: str) -> str:
    match = _REFERENCE.fullmatch(text)
    if match is None:
        return text
    value = os.environ.get(match["name"])
    if value is None:
        raise UsageError(f"the environment variable {match['name']} with a password is not set")
    return value
