"""Inspects a program instead of running it: its first `execute` starts nothing and hands over the job."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.graph.job_graph import JobGraph
from penstock.model.configuration import Configuration


@dataclass(frozen=True)
class Program:
    """What a program would run."""

    graph: JobGraph
    configuration: Configuration
    origins: Mapping[str, str]
    """Where each setting comes from."""


class ProgramTakenError(BaseException):
    """Ends a program at its first `execute`; not an Exception, so that no handler of the program catches it."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.program = program


_inspecting = False


def take_program(graph: JobGraph, configuration: Configuration, origins: Mapping[str, str]) -> None:
    """Called by `execute`: returns, unless the program is only inspected."""
    if _inspecting:
        raise ProgramTakenError(Program(graph, configuration, origins))


def is_inspecting() -> bool:
    """Whether the program is only inspected: it will start nothing."""
    return _inspecting


def inspect_program(run: Callable[[], object]) -> Program:
    """The first job of the program that `run` runs. Raises UsageError if it executes none."""
    try:
        with _inspection():
            run()
    except ProgramTakenError as taken:
        return taken.program
    raise UsageError("the program executes no job; call env.execute() in it")


@contextmanager
def _inspection() -> Iterator[None]:
    global _inspecting
    _inspecting = True
    try:
        yield
    finally:
        _inspecting = False
