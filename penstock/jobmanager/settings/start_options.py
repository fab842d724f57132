"""The settings of the snapshot that a job starts from."""

from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.model.configuration import Configuration
from penstock.model.options import checkpointing_options as options

LEGACY = "claim mode LEGACY is treated as NO_CLAIM: the snapshot is never deleted, and the first checkpoint is full"
TIME_HAS_ENDED = (
    "the snapshot is of a job that was drained or had read all its input: all its event-time timers have fired. "
    "Event time starts again with the next rows"
)


def start_options(configuration: Configuration) -> StartOptions:
    """The options in a configuration. Without a path the job starts with empty state."""
    return StartOptions(
        configuration.get(options.RECOVERY_PATH),
        configuration.get(options.IGNORE_UNCLAIMED_STATE),
        claim=configuration.get(options.CLAIM_MODE) == "claim",
    )


def start_warnings(configuration: Configuration) -> list[str]:
    """Warnings about these options."""
    return [LEGACY] if configuration.get(options.CLAIM_MODE) == "legacy" else []
