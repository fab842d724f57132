"""`penstock restore --check`: what a start from a snapshot would do."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from penstock.checkpoint.snapshot.snapshot_location import locate
from penstock.cli.flags import DebugFlag, JsonFlag, SettingsFlag, parse_settings
from penstock.cli.program import load_program, require_job_file
from penstock.control.inspect.program_inspection import Program
from penstock.control.submission import Submission, submitted
from penstock.control.terminal import MODE, print_progress, print_result
from penstock.errors import CheckpointError, UsageError
from penstock.jobmanager.restore_check import (
    OperatorReport,
    ProgramToCheck,
    RestoreReport,
    StateReport,
    check_restore,
)
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.jobmanager.settings.start_options import start_options

BAR_WIDTH = 30


def restore(  # noqa: PLR0913 - the parameters are the command's flags
    *,
    job_file: Annotated[Path, typer.Argument(metavar="job.py", help="The program.")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="A savepoint or checkpoint.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="args", help="Arguments of the program.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Report what a start would do, without starting.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Check every file against its hash.")] = False,
    allow_non_restored: Annotated[
        bool,
        typer.Option(
            "-n", "--allow-non-restored-state", "--allowNonRestoredState", help="Skip state that has no operator."
        ),
    ] = False,
    parallelism: Annotated[int | None, typer.Option("-p", "--parallelism", help="Subtasks per operator.")] = None,
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> int:
    """Compare a program with a savepoint or checkpoint, operator by operator."""
    if not check:
        raise UsageError("penstock restore needs --check; to start the job, use `penstock run -s PATH job.py`")
    require_job_file(job_file)
    locate(path)  # before the program starts Spark
    submission = Submission(
        job_file=job_file,
        parallelism=parallelism,
        allow_non_restored=allow_non_restored,
        overrides=parse_settings(settings),
    )
    with submitted(submission):
        program = load_program(job_file, arguments or [])
    bar = _bar() if verify else None
    report = check_restore(_program_to_check(program), path, bar)
    print_result(text_of(report), report)
    return 0 if report.possible else CheckpointError.exit_code


def _program_to_check(program: Program) -> ProgramToCheck:
    settings = JobSettings.of("", program.configuration)
    start = replace(start_options(program.configuration), path=None)
    return ProgramToCheck(program.graph, start, settings.backend.kind, settings.job_parameters)


def _bar() -> Callable[[int, int], None]:
    """A progress bar on stderr, if that is a terminal."""
    is_shown = sys.stderr.isatty() and not MODE.json

    def show(done: int, total: int) -> None:
        if is_shown:
            share = done / total if total else 1.0
            filled = round(BAR_WIDTH * share)
            bar = "#" * filled + "." * (BAR_WIDTH - filled)
            print_progress(f"verifying [{bar}] {share:4.0%}", is_last=done == total)

    return show


def text_of(report: RestoreReport) -> str:
    """The report as text."""
    lines = [f"{report.path}: {report.kind} {report.checkpoint_id} of job {report.job_id}"]
    if report.verified is not None:
        lines.append(f"{report.verified} files match the manifest")
    lines += ["", "operators"]
    for operator in report.operators:
        lines.append(f"  {operator.outcome:<9} {operator.uid}{_remark(operator)}")
        lines += [f"    {_state_line(state)}" for state in operator.states]
    lines.append("sources")
    lines += [f"  {source.outcome:<9} {source.uid}" for source in report.sources]
    if report.changes:
        lines += ["changes", *(f"  {change}" for change in report.changes)]
    if report.needed:
        lines += ["", "it would not start:", *(f"  {need}" for need in report.needed)]
    else:
        lines += ["", "it would start"]
    return "\n".join(lines)


def _remark(operator: OperatorReport) -> str:
    old, new = operator.parallelism
    parts = [f"was {operator.was}"] if operator.was else []
    if old is not None and new is not None and old != new:
        parts.append(f"parallelism {old} -> {new}")
    return f" ({', '.join(parts)})" if parts else ""


def _state_line(state: StateReport) -> str:
    details = "; ".join([*state.changes, *([state.reason] if state.reason else [])])
    return f"{state.outcome:<9} {state.name} ({state.kind})" + (f": {details}" if details else "")
