"""Which environment variables of the driver its TaskManagers get: all but those that look like secrets (security S17).

A secret is passed on, through standard input, if a setting names it, or if it belongs to an object store that the job
uses. Others stay in the driver, where the user's functions do not run.
"""

import os
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from penstock.model.options import execution_options

_SECRET = re.compile(
    r"passw(or)?d|passphrase|secret|token|credential|access_?key|account_?key|api_?key|private_?key|connection_?string"
    r"|(^|_)sas(_|$)|_(pass|pwd)(_|$)|_keys?$",
    re.IGNORECASE,
)
_STORES = {
    "AWS_*": re.compile(rb"\bs3[an]?:/", re.IGNORECASE),
    "GOOGLE_*": re.compile(rb"\b(gs|gcs):/", re.IGNORECASE),
    "AZURE_*": re.compile(rb"\b(az|abfss?|adl|wasbs?):/", re.IGNORECASE),
}
"""The variables of each object store, and how an address in it begins."""
withheld: set[str] = set()
"""In a TaskManager: the names of the driver's variables that it did not get."""


def is_secret(name: str) -> bool:
    """Whether a variable holds a secret, by its name.

    >>> is_secret("AWS_SECRET_ACCESS_KEY"), is_secret("PENSTOCK_TOKEN"), is_secret("AWS_REGION"), is_secret("HOME")
    (True, True, False, False)
    """
    return _SECRET.search(name) is not None


def without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that every TaskManager gets."""
    return {name: value for name, value in variables.items() if not is_secret(name)}


def granted_secrets(variables: Mapping[str, str], named: Iterable[str], texts: Iterable[bytes]) -> dict[str, str]:
    """The secrets that a job's TaskManagers get too.

    `named`: patterns of names, from the settings. `texts`: whatever may hold the address of an object store.
    """
    patterns = [pattern for pattern in named if pattern]
    known = list(texts)
    patterns += [pattern for pattern, address in _STORES.items() if any(address.search(text) for text in known)]
    return {
        name: value
        for name, value in variables.items()
        if is_secret(name) and any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def take_environment(granted: Mapping[str, str], not_granted: Iterable[str]) -> None:
    """In a TaskManager: have the granted variables, and know the names of the others."""
    os.environ.update(granted)
    withheld.update(not_granted)


def withheld_hint(error: BaseException) -> str:
    """What to do about a function that asked for a variable that was not passed on; empty for other errors."""
    name = error.args[0] if isinstance(error, KeyError) and error.args else None
    if not isinstance(name, str) or name not in withheld:
        return ""
    return (
        f"  the driver's variable {name!r} looks like a secret, so TaskManagers do not get it; pass it with "
        f"-D{execution_options.TASKMANAGER_ENVIRONMENT.key}={name}"
    )
