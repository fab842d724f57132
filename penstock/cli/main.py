"""The `penstock` command: parse, call, print. Every error becomes one message and an exit code."""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from penstock import __version__
from penstock.cli.command_table import LazyGroup
from penstock.cli.flag_values import check_only_what_needs_it
from penstock.cli.flags import DebugFlag
from penstock.control.terminal import MODE, open_streams, print_error
from penstock.errors import PenstockError, WaitInterruptedError

COMPLETION_VARIABLE = "_PENSTOCK_COMPLETE"
"""Set while a shell asks for completions."""
WITHOUT_PANDAS = ("checkpoints", "state")
"""Commands that read snapshots. pyarrow would import pandas with its first array, which takes longer than they do."""


class PandasRefused:
    """Makes imports behave as if pandas were not installed."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Raise for pandas, and leave other modules to the next finder."""
        if fullname == "pandas":
            raise ModuleNotFoundError(f"this command does not import {fullname}", name=fullname)


app = typer.Typer(
    name="penstock",
    cls=LazyGroup,
    help="Stateful stream processing in Python on Spark.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of a command."""
    open_streams()
    if arguments is None and sys.argv[1:2] and sys.argv[1] in WITHOUT_PANDAS:  # not when a program calls this
        sys.meta_path.insert(0, PandasRefused())
    if COMPLETION_VARIABLE in os.environ:
        from typer._completion_classes import completion_init  # only for a shell that asks for completions

        completion_init()
    MODE.json = MODE.debug = False
    check_only_what_needs_it()
    try:
        exit_code = app(args=arguments, prog_name="penstock", standalone_mode=False) or 0
    except Exception as error:
        if isinstance(error, typer.TyperException) and "--json" in (sys.argv if arguments is None else arguments):
            MODE.json = True  # an error in another flag may be found before this one is parsed
        message, exit_code = describe(error)
        if MODE.debug:
            traceback.print_exc()
        print_error(message, exit_code)
    return int(exit_code)


def describe(error: Exception) -> tuple[str, int]:
    """The message for the user and the exit code."""
    if isinstance(error, PenstockError):
        return str(error), error.exit_code
    if isinstance(error, typer.TyperException):
        command = getattr(getattr(error, "ctx", None), "command_path", "penstock")
        return f"{error.format_message().rstrip('.')}; see `{command} --help`", error.exit_code
    if isinstance(error, typer.Abort):
        return "interrupted", WaitInterruptedError.exit_code
    hint = "" if MODE.debug else "; --debug shows where"
    return f"this is a bug in penstock: {type(error).__name__}: {error}{hint}", 1


def show_version(value: bool) -> None:  # noqa: FBT001 - typer passes the value by position
    """Print the version instead of running a command."""
    if value:
        print(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def penstock(
    context: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: DebugFlag = False,
) -> None:
    """Stateful stream processing in Python on Spark."""
    if context.invoked_subcommand is None:
        print(context.get_help())
