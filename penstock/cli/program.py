"""Runs a user's program in this process, and shows its errors without Penstock's own frames."""

import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import TracebackType

from penstock.control.inspect.program_inspection import Program, inspect_program
from penstock.control.terminal import MODE, print_error, print_message
from penstock.errors import JavaNotFoundError, JobError, PathNotFoundError, PenstockError, UsageError

INTERRUPTED = 130
PACKAGE = str(Path(__file__).resolve().parent.parent)


def run_program(job_file: Path, arguments: Sequence[str]) -> int:
    """Run the program like `python job_file arguments…`, print its error if any, and return its exit code."""
    require_job_file(job_file)
    try:
        with as_script(job_file, arguments):
            runpy.run_path(str(job_file), run_name="__main__")
    except SystemExit as request:
        return exit_code_of(request)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException as error:
        if MODE.debug:
            traceback.print_exc()
        message, code = describe(error, job_file)
        print_error(message, code)
        return code
    return 0


def require_job_file(job_file: Path) -> None:
    """Raise PathNotFoundError unless the program is there."""
    if not job_file.is_file():
        raise PathNotFoundError(f"no job file {str(job_file)!r}; give the path of a Python file")


@contextmanager
def as_script(job_file: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Set `sys.argv` and `sys.path` as they are for a script."""
    before = sys.argv, sys.path
    sys.argv = [str(job_file), *arguments]
    sys.path = [str(job_file.resolve().parent), *sys.path]
    try:
        yield
    finally:
        sys.argv, sys.path = before


def exit_code_of(request: SystemExit) -> int:
    """The exit code of `sys.exit(…)`; a text is printed on stderr and means 1, as in Python."""
    if request.code is None or isinstance(request.code, int):
        return request.code or 0
    print_message(str(request.code))
    return 1


def describe(error: BaseException, job_file: Path) -> tuple[str, int]:
    """The message for the user and the exit code."""
    if "JAVA_GATEWAY_EXITED" in str(error):  # of a session that the program has made itself
        error = missing_java() or error
    if isinstance(error, UsageError) and not isinstance(error, JavaNotFoundError):  # any line could fail with it
        message = str(error)
        is_located = "\n  created at " in message  # better than the line of env.execute()
        return message if is_located else f"{message}{location(error.__traceback__, job_file)}", error.exit_code
    if isinstance(error, PenstockError):
        return "\n".join([str(error), *getattr(error, "__notes__", ())]), error.exit_code
    if isinstance(error, SyntaxError) and error.filename == str(job_file):
        text = "".join(traceback.format_exception_only(error)).rstrip()
        return f"job file {str(job_file)!r} cannot be read as Python, line {error.lineno}\n{text}", UsageError.exit_code
    return f"{job_file.name} raised {type(error).__name__}\n{user_traceback(error)}", 1


def missing_java() -> JavaNotFoundError | None:
    """Why Spark cannot start, if the reason is a missing Java."""
    from penstock.spark.java import require_java  # not needed by commands that run no program

    try:
        require_java()
    except JavaNotFoundError as error:
        return error
    return None


def user_traceback(error: BaseException) -> str:
    """The traceback as Python prints it, without the frames of this package and of `runpy`."""
    report = traceback.TracebackException.from_exception(error)
    drop_our_frames(report)
    return "".join(report.format()).rstrip()


def drop_our_frames(report: traceback.TracebackException) -> None:
    """Remove our frames, also from the causes."""
    report.stack = traceback.StackSummary.from_list([frame for frame in report.stack if not is_ours(frame.filename)])
    for cause in (report.__cause__, report.__context__):
        if cause is not None:
            drop_our_frames(cause)


def is_ours(filename: str) -> bool:
    """Return whether a frame's file is part of this package or of Python's import and start machinery."""
    return filename.startswith((PACKAGE, "<frozen ")) or filename == runpy.__file__


def location(frames: TracebackType | None, job_file: Path) -> str:
    """The line of the job file that raised the error, to add to a message; empty if another file did."""
    lines = [frame.lineno for frame in traceback.extract_tb(frames) if frame.filename == str(job_file)]
    return f"\n  at {job_file}:{lines[-1]}" if lines else ""


def load_program(job_file: Path, arguments: Sequence[str]) -> Program:
    """The first job that the program would execute."""
    require_job_file(job_file)

    def run() -> None:
        with as_script(job_file, arguments), redirect_stdout(sys.stderr):  # stdout is for the report
            runpy.run_path(str(job_file), run_name="__main__")

    try:
        return inspect_program(run)
    except SystemExit as request:
        raise UsageError(f"the program ended with {request.code!r} before it executed a job") from request
    except PenstockError:
        raise
    except Exception as error:
        message, code = describe(error, job_file)
        raise (UsageError if code == UsageError.exit_code else JobError)(message) from error
