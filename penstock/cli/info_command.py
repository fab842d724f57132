"""`penstock info`: the plan of a program, how its sources are read, and its settings, without running it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.flags import DebugFlag, JsonFlag, SettingsFlag, parse_settings
from penstock.cli.program import load_program
from penstock.connectors.read_path import plan_read_paths, reading_lines
from penstock.control.effective_settings import visible_value
from penstock.control.inspect.program_inspection import Program
from penstock.control.job_guarantees import job_guarantees
from penstock.control.submission import Submission, submitted
from penstock.control.terminal import print_result
from penstock.graph.job_graph import JobGraph
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
    """Show the plan of a program, what it guarantees, how its sources are read, and where its settings come from."""
    submission = Submission(job_file=job_file, parallelism=parallelism, overrides=parse_settings(settings))
    with submitted(submission):
        program = load_program(job_file, arguments or [])
    configuration = program.configuration
    graph = plan_read_paths(program.graph, configuration, lambda key: configuration.to_dict().get(key))
    line = "-" * len(HEAD)
    rows = setting_rows(program)
    guarantees = job_guarantees(graph, configuration)
    report = "\n".join([*guarantees.lines, line, *reading_lines(graph)])
    text = f"{HEAD}\n{plan_json(graph)}\n{line}\n{report}\n{line}\n{settings_text(rows)}"
    found = {"guarantees": guarantees.to_dict(), "sources": source_rows(graph), "settings": rows}
    print_result(text, {**describe_plan(graph), **found})


def source_rows(graph: JobGraph) -> list[dict[str, Any]]:
    """How each source is read, and why not packed."""
    return [
        {"uid": source.uid, "name": source.name, "packed": source.packed, "reason": source.reading}
        for source in graph.sources
    ]


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
