"""`penstock standby`: waits until the driver of a job dies, then goes on with the job."""

import os
import tempfile
import threading
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.flags import DebugFlag, JsonFlag, SettingsFlag, parse_settings
from penstock.cli.job_target import TOKEN_VARIABLE
from penstock.cli.run_command import run_attached
from penstock.clock import SystemClock
from penstock.control.effective_settings import load_settings
from penstock.control.standby.active_driver import ActiveDriver
from penstock.control.standby.ha_folder import HaFolder
from penstock.control.standby.standby import Standby, StandbyNotice, Takeover
from penstock.control.terminal import print_message, print_result
from penstock.model.configuration import Configuration
from penstock.model.options.availability_options import HA_TIMEOUT


def standby(
    *,
    ha: Annotated[str, typer.Option("--ha", metavar="DIR", help="The folder that the job was started with.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the job even if it was suspended.")] = False,
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> int:
    """Wait until the driver of a job dies, then go on with the job."""
    os.environ.pop(TOKEN_VARIABLE, None)
    overrides = parse_settings(settings)
    configuration = load_settings(Configuration(), overrides, []).configuration
    timeout_ms = configuration.get(HA_TIMEOUT) if configuration.contains_key(HA_TIMEOUT.key) else None
    folder = HaFolder.open(ha)
    _warm_up()
    waiting = Standby(folder, SystemClock(), _report, timeout_ms=timeout_ms, resumes=resume)
    found = waiting.wait_for_turn(threading.Event().wait)
    if isinstance(found, StandbyNotice):
        return int(found.status == "FAILED")
    return _take_over(found, folder, overrides)


def _take_over(found: Takeover, folder: HaFolder, overrides: dict[str, str]) -> int:
    """Run the program that the folder holds; the exit code is that of `penstock run`."""
    program = found.program
    text = f"taking over job {program.name!r} ({program.job_id})"
    _report(StandbyNotice("lost", text, job_id=program.job_id, name=program.name))
    found.lease.start()  # it is renewed while Spark starts
    driver = ActiveDriver(folder, found.lease, program, was_suspended=found.was_suspended)
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-standby-") as unpacked:  # mode 0700
            submission = found.unpack(Path(unpacked), folder.address, overrides)
            _enter(Path(program.working_folder))
            return run_attached(submission, driver)
    finally:
        driver.close()


def _enter(working_folder: Path) -> None:
    """Let relative paths of the program mean what they meant, if this machine has that folder."""
    try:
        os.chdir(working_folder)
    except OSError:
        print_message(
            f"note: the program was started in {working_folder}, which is not on this machine: its relative paths "
            f"count from {os.getcwd()}"
        )


def _report(notice: StandbyNotice) -> None:
    print_result(str(notice), notice)


def _warm_up() -> None:
    """Import what a program needs now, while there is time."""
    import penstock.datastream
    import penstock.jobmanager.job_submission
    import penstock.spark.session  # noqa: F401 - which imports pyspark
