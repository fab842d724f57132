"""`penstock info`: the plan of a program, without running it."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.flags import DebugFlag, JsonFlag, SettingsFlag, parse_settings
from penstock.cli.output import print_result
from penstock.cli.program import load_program
from penstock.control.submission import Submission, submitted
from penstock.graph.plan_json import describe_plan, plan_json

HEAD = "----------------------- Execution Plan -----------------------"


def info(
    *,
    job_file: Annotated[Path, typer.Argument(metavar="job.py", help="The program.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="args", help="The program's own.")] = None,
    parallelism: Annotated[int | None, typer.Option("-p", "--parallelism", help="Subtasks per operator.")] = None,
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Show the plan of a program: its sources, operators and sinks, and the stages they run in."""
    submission = Submission(job_file=job_file, parallelism=parallelism, overrides=parse_settings(settings))
    with submitted(submission):
        program = load_program(job_file, arguments or [])
    line = "-" * len(HEAD)
    print_result(f"{HEAD}\n{plan_json(program.graph)}\n{line}", describe_plan(program.graph))
