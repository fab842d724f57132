"""Values of flags: texts as they are, others as Typer checks them."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer

from penstock.cli.flag_values import check_only_what_needs_it
from penstock.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def parsed(*arguments: str) -> dict[str, object]:
    """What the function of a command gets."""
    found: dict[str, object] = {}

    def command(  # noqa: PLR0913 - one parameter of each kind
        name: str,
        more: Annotated[list[str] | None, typer.Argument()] = None,
        *,
        settings: Annotated[list[str] | None, typer.Option("-D")] = None,
        path: Path | None = None,
        count: Annotated[int, typer.Option(min=1)] = 20,
        ratio: float = 0.5,
        text: str = "none",
        loud: bool = False,
    ) -> None:
        found.update(name=name, more=more, settings=settings, path=path, count=count)
        found.update(ratio=ratio, text=text, loud=loud)

    check_only_what_needs_it()
    app = typer.Typer(add_completion=False)
    app.command()(command)
    app(args=list(arguments), standalone_mode=False)
    return found


def test_defaults_are_kept() -> None:
    assert parsed("job") == {
        "name": "job",
        "more": None,
        "settings": None,
        "path": None,
        "count": 20,
        "ratio": 0.5,
        "text": "none",
        "loud": False,
    }


def test_values_have_the_type_of_their_parameter() -> None:
    flags = ("-D", "a=1", "-D", "b=2", "--path", "x/y", "--count", "3", "--ratio", "1", "--text", "7", "--loud")
    assert parsed("job", "1", "2", *flags) == {
        "name": "job",
        "more": ["1", "2"],
        "settings": ["a=1", "b=2"],
        "path": Path("x/y"),
        "count": 3,
        "ratio": 1.0,
        "text": "7",
        "loud": True,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--limit", "many"), "Invalid value for '--limit'"),
        (("--limit", "0"), "Invalid value for '--limit'"),
        (("--operator",), "requires an argument"),
    ],
)
def test_wrong_values_are_refused(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "show", "savepoint-1", "--operator", "sum", "--state", "total", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_without_the_function_that_is_replaced_nothing_changes() -> None:
    program = "import typer.core; del typer.core.build_runtime_param; import penstock.cli.flag_values as values"
    command = [sys.executable, "-c", f"{program}; values.check_only_what_needs_it(); print('fine')"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout == "fine\n", done.stderr
