"""The commands of `penstock` by name. A command's module is imported when the command is used.

So `penstock --help` imports none of them, and `penstock list` neither Spark nor Arrow.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True)
class CommandEntry:
    """Where a command is."""

    module: str
    """Below `penstock.cli`."""
    function: str
    """A function, or a Typer with commands of its own."""
    help: str
    """The first line of the function's docstring, for the list of commands."""
    settings: Mapping[str, Any] = field(default_factory=dict)

    def load(self, name: str) -> Any:
        """The command."""
        found = getattr(import_module(f"penstock.cli.{self.module}"), self.function)
        if isinstance(found, typer.Typer):
            command: Any = typer.main.get_group(found)
            command.name = name
            return command
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name, **self.settings)(found)
        return typer.main.get_command(app)


class OptionalValueCommand(TyperCommand):
    """A command with an option whose value may be missing, as in `cancel -s`; then it is empty."""

    optional = ("-s", "--with-savepoint", "--withSavepoint", "-p", "--savepoint-path", "--savepointPath")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the empty value where there is none."""
        filled: list[str] = []
        for argument, following in zip(args, [*args[1:], None], strict=True):
            filled.append(argument)
            if argument in self.optional and (following is None or following.startswith("-")):
                filled.append("")
        return super().parse_args(ctx, filled)


PASSED_ON = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
    "help_option_names": ["--help"],  # with -h, the h of -Dspark.… would ask for help
}
"""All arguments belong to another command."""
OPTIONAL_VALUE = {"cls": OptionalValueCommand}
COMMANDS = {
    # What follows the job file belongs to the program, flags included.
    "run": CommandEntry(
        "run_command", "run", "Run a program as a job.", {"context_settings": {"allow_interspersed_args": False}}
    ),
    "supervise": CommandEntry(
        "supervise_command",
        "supervise",
        "Run a program as a job, and start it again when its driver dies or the job fails.",
        {"context_settings": PASSED_ON},
    ),
    "standby": CommandEntry(
        "standby_command", "standby", "Wait until the driver of a job dies, then go on with the job."
    ),
    "list": CommandEntry("list_command", "list_jobs", "List the jobs that have not ended."),
    "status": CommandEntry("status_commands", "status", "Show the status of a job and its processes."),
    "dashboard": CommandEntry("dashboard_command", "dashboard", "Open the web page of a job, or of all jobs."),
    "logs": CommandEntry("status_commands", "logs", "Print the logs of a job."),
    "forget": CommandEntry(
        "forget_command",
        "forget",
        "Remove a job that does not run and its logs; checkpoints stay.",
    ),
    "savepoint": CommandEntry("savepoint_commands", "savepoint", "Take a savepoint of a job, or remove one."),
    "stop": CommandEntry("savepoint_commands", "stop", "Stop a job with a savepoint.", OPTIONAL_VALUE),
    "cancel": CommandEntry("savepoint_commands", "cancel", "Cancel a job.", OPTIONAL_VALUE),
    "checkpoint": CommandEntry("checkpoint_commands", "checkpoint", "Take a checkpoint of a job now."),
    "checkpoints": CommandEntry("checkpoint_commands", "checkpoints", "Checkpoints in a folder."),
    "rescale": CommandEntry("rescale_command", "rescale", "Change the parallelism of a running job."),
    "query": CommandEntry("query_command", "query", "Read queryable state of a running job."),
    "state": CommandEntry("state_commands", "app", "Inspect savepoints and checkpoints."),
    "restore": CommandEntry(
        "restore_command", "restore", "Compare a program with a savepoint or checkpoint, operator by operator."
    ),
    "info": CommandEntry(
        "info_command",
        "info",
        "Show the plan of a program, what it guarantees, how its sources are read, and where its settings come from.",
    ),
    "dev": CommandEntry(
        "dev_command", "dev", "Start a broker or a database on this machine, for tests and first steps."
    ),
    "top": CommandEntry("top_command", "top", "Show all jobs that have not ended, live."),
    "doctor": CommandEntry("doctor_command", "doctor", "Check whether this machine can run jobs."),
    "completion": CommandEntry(
        "completion_command", "completion", "Print a script that completes commands, flags and jobs in a shell."
    ),
    "demo": CommandEntry("demo.demo_command", "demo", "Run a job that loses a process and still counts right."),
}


class LoadedCommands(Mapping[str, Any]):
    """The commands by name. Getting one imports its module; names alone import nothing."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = COMMANDS[name].load(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class LazyGroup(TyperGroup):
    """The command `penstock` itself."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = LoadedCommands()

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the table."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands in the help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])
