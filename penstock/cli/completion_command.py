"""`penstock completion`: what a shell needs to complete commands, flags and jobs."""

from typing import Annotated

import typer
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script

from penstock.cli.flags import DebugFlag, JsonFlag, parse_choice
from penstock.cli.main import COMPLETION_VARIABLE
from penstock.control.terminal import print_result

SHELLS = ("bash", "zsh", "fish")
PROGRAM = "penstock"


def completion(
    *,
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="The shell.")],
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Print a script that completes commands, flags and jobs in a shell."""
    chosen = parse_choice("shell", shell, SHELLS) or shell
    completion_init()
    script = get_completion_script(prog_name=PROGRAM, complete_var=COMPLETION_VARIABLE, shell=chosen)
    print_result(script, {"shell": chosen, "script": script})
