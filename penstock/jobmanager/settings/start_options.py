"""What a configuration says about the snapshot that a job starts from (features O5, O8, O9)."""

from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.model.configuration import Configuration

PATH = "execution.state-recovery.path"
IGNORE_UNCLAIMED = "execution.state-recovery.ignore-unclaimed-state"
CLAIM_MODE = "execution.state-recovery.claim-mode"
LEGACY = "claim mode LEGACY is treated as NO_CLAIM: the snapshot is never deleted, and the first checkpoint is full"
TIME_HAS_ENDED = (
    "the snapshot is of a job at its end (drained, or at the end of its input): all its event-time timers have fired. "
    "Event time begins anew behind the rows that were read"
)


def start_options(configuration: Configuration) -> StartOptions:
    """The options in a configuration; without a path the job starts from nothing."""
    return StartOptions(
        configuration.get_string(PATH, "") or None,
        configuration.get_boolean(IGNORE_UNCLAIMED, default_value=False),
        claim=_claim_mode(configuration) == "claim",
    )


def start_warnings(configuration: Configuration) -> list[str]:
    """What is said about the choice."""
    return [LEGACY] if _claim_mode(configuration) == "legacy" else []


def _claim_mode(configuration: Configuration) -> str:
    return configuration.get_string(CLAIM_MODE, "no-claim").strip().lower().replace("_", "-")
