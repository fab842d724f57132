"""Commands in the documentation exist, with the flags they are shown with, and so do make targets and REST paths."""

import re
import shlex
from typing import Any

import pytest
import typer

from penstock.cli.main import app
from penstock.rest.routes import ENDPOINTS
from tests.docs.pages import DOCS, ROOT, all_blocks, written_pages

COMMANDS = typer.main.get_command(app)
PLACES = [(str(block), block.text) for block in all_blocks() if block.language == "console"]
REFERENCE = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
_INLINE = re.compile(r"(?<!`)`(penstock [a-z][^`\n]*)`(?!`)")


def shown_commands() -> list[tuple[str, str]]:
    """(place, command) of every penstock command in a console block or in the text."""
    found = [(place, line) for place, text in PLACES for line in re.findall(r"^\$ (penstock .*)$", text, re.MULTILINE)]
    for path in written_pages():
        prose = re.sub(r"^ *```.*?^ *```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        found += [(path.relative_to(ROOT).as_posix(), text) for text in _INLINE.findall(prose.replace("\\|", "|"))]
    return found


def problem(command: str) -> str | None:
    """What is wrong with a command; None if its name and all its flags exist."""
    words = [word for word in shlex.split(re.sub(r"[\[\]…]|\s\|\s|&&.*", " ", command)) if word != "penstock"]
    current: Any = COMMANDS
    while words and hasattr(current, "commands") and words[0] in current.commands:
        current = current.commands[words.pop(0)]
    if current is COMMANDS:
        return f"there is no command {words[0]!r}"
    flags = {flag for parameter in current.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    wrong = [
        word for word in words if word.startswith("-") and not word.startswith("-D") and word.split("=")[0] not in flags
    ]
    return f"{current.name} has no {' '.join(wrong)}" if wrong else None


def test_commands_and_flags_exist() -> None:
    found = shown_commands()
    assert len(found) > 50
    assert not [f"{place}: `{command}`: {wrong}" for place, command in found if (wrong := problem(command))]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("penstock savepoint JOB --kind native", "savepoint has no --kind"),
        ("penstock resume", "there is no command 'resume'"),
        ("penstock run -s PATH [-n] job.py", None),
        ("penstock state show PATH --state total", None),
    ],
)
def test_a_wrong_command_is_found(command: str, expected: str | None) -> None:
    assert problem(command) == expected


def test_the_reference_has_every_command() -> None:
    names = list(COMMANDS.commands)  # type: ignore[attr-defined]
    assert not [name for name in names if not re.search(rf"`penstock {name}\b", REFERENCE)]


def test_the_reference_has_every_endpoint_and_no_other() -> None:
    page = (DOCS / "reference" / "rest-api.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([A-Z]+) ([^`?]+)(?:\?[^`]*)?` \| (read|admin) \|", page, re.MULTILINE)
    served = {(one.method, re.sub(r"\{(\w+?)(?:_id)?\}", _named, one.path), one.scope) for one in ENDPOINTS}
    assert set(rows) == served


def _named(match: re.Match[str]) -> str:
    return f":{match[1].replace('_', '')}"


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    found = [
        (path.name, target)
        for path in written_pages()
        for target in re.findall(r"(?:^\$ |`)make ([a-z0-9-]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert found and not [(page, target) for page, target in found if target not in targets]
