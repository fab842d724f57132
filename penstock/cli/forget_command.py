"""`penstock forget`: removes a job that no longer runs from the registry."""

from penstock.cli.flags import DebugFlag, JobArgument, JsonFlag, SettingsFlag, parse_settings
from penstock.cli.job_registry import open_registry
from penstock.control.registry import JobRecord
from penstock.control.terminal import print_result


def forget(
    *, job: JobArgument, settings: SettingsFlag = None, json: JsonFlag = False, debug: DebugFlag = False
) -> None:
    """Remove a job that does not run and its logs; checkpoints stay."""
    record = open_registry(parse_settings(settings)).forget(job)
    print_result(forgotten_line(record), {"job_id": record.job_id, "checkpoint_dir": record.checkpoint_dir})


def forgotten_line(record: JobRecord) -> str:
    """What was removed, and what was not."""
    stays = f"; its checkpoints in {record.checkpoint_dir} stay" if record.checkpoint_dir is not None else ""
    return f"job {record.job_id} ({record.name}) is forgotten{stays}"
