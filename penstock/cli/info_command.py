"""`penstock info`: the plan of a program and its settings, without running it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.flags import DebugFlag, JsonFlag, SettingsFlag, parse_settings
from penstock.cli.program import load_program
from penstock.control.effective_settings import visible_value
from penstock.control.inspect.program_inspection import Program
from penstock.control.job_guarantees import job_guarantees
from penstock.control.submission import Submission, submitted
from penstock.control.terminal import print_result
from penstock.graph.plan_json import describe_plan, plan_json

HEAD = "----------------------- Execution Plan -----------------------"
SETTINGS_HEAD = "Settings (every other option has its default):"


def info(
    *,
    job_file: Annotated[Path, typer.Argument(metavar="job.py", help="The program.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="args", help="Arguments of the program.")] = None,
    parallelism: Annotated[int | None, typer.Option("-p", "--parallelism", help="Subtasks per operator.")] = None,
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Show the plan of a program, what it guarantees, and where each of its settings comes from."""
    submission = Submission(job_file=job_file, parallelism=parallelism, overrides=parse_settings(settings))
    with submitted(submission):
        program = load_program(job_file, arguments or [])
    line = "-" * len(HEAD)
    rows = setting_rows(program)
    guarantees = job_guarantees(program.graph, program.configuration)
    report = "\n".join(guarantees.lines)
    text = f"{HEAD}\n{plan_json(program.graph)}\n{line}\n{report}\n{line}\n{settings_text(rows)}"
    print_result(text, {**describe_plan(program.graph), "guarantees": guarantees.to_dict(), "settings": rows})


def setting_rows(program: Program) -> list[dict[str, str]]:
    """Key, value and origin of each setting, by key. Secret values are hidden."""
    return [
        {"key": key, "value": visible_value(key, value), "origin": program.origins[key]}
        for key, value in sorted(program.configuration.to_dict().items())
    ]


def settings_text(rows: Sequence[dict[str, str]]) -> str:
    """The settings as a table."""
    if not rows:
        return "Settings: every option has its default"
    widths = [max(len(row[column]) for row in rows) for column in ("key", "value")]
    lines = [f"  {row['key']:{widths[0]}}  {row['value']:{widths[1]}}  {row['origin']}" for row in rows]
    return "\n".join([SETTINGS_HEAD, *lines])
