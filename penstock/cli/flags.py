"""Flags that several commands have, and how their values are read."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated

import typer

from penstock.control.terminal import MODE
from penstock.errors import PenstockError, UsageError

DEFAULT_LIMIT = 20
"""How many rows or entries are shown unless `--limit` says so."""


def _set_json(value: bool) -> bool:  # noqa: FBT001 - typer passes the value by position
    MODE.json = MODE.json or value
    return value


def _set_debug(value: bool) -> bool:  # noqa: FBT001 - as above
    MODE.debug = MODE.debug or value
    return value


JsonFlag = Annotated[bool, typer.Option("--json", callback=_set_json, is_eager=True, help="Print JSON.")]
DebugFlag = Annotated[
    bool, typer.Option("--debug", callback=_set_debug, is_eager=True, help="Show tracebacks of errors.")
]
SettingsFlag = Annotated[
    list[str] | None, typer.Option("-D", metavar="KEY=VALUE", help="Set a configuration key. May be repeated.")
]


def complete_job(incomplete: str) -> list[str]:
    """The names and ids of jobs that begin with the text, for a shell. Whatever goes wrong, it completes nothing."""
    from penstock.cli.job_registry import open_registry  # only for a shell that asks for completions
    from penstock.control.registry import SUSPENDED

    try:
        records = open_registry({}).list()
    except PenstockError:
        return []
    names = [record.name for record in records if not record.ended or record.status == SUSPENDED]
    ids = [record.job_id for record in records]
    found = [*names, *(ids if incomplete else [])]
    return [word for word in dict.fromkeys(found) if word.startswith(incomplete)]


JobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="A job id, a unique prefix of one, or the name of a running job.",
        autocompletion=complete_job,
    ),
]


def parse_settings(settings: Sequence[str] | None) -> dict[str, str]:
    """The values of `-Dkey=value`; the last value of a key wins."""
    pairs = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"-D{setting} is not of the form -Dkey=value")
        pairs[key.strip()] = value.strip()
    return pairs


def parse_choice(flag: str, value: str | None, choices: Sequence[str]) -> str | None:
    """The choice that `value` names; case is ignored, and `-` equals `_`."""
    if value is None:
        return None
    folded = value.replace("-", "_").lower()
    for choice in choices:
        if choice.lower() == folded:
            return choice
    near = get_close_matches(folded, [choice.lower() for choice in choices], n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UsageError(f"{flag} {value!r} is not one of {', '.join(choices)}{hint}")
