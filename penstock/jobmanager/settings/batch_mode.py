"""Settings that mean nothing to a batch job, and requests that it refuses."""

from penstock.errors import UsageError
from penstock.model.configuration import Configuration
from penstock.model.options import checkpointing_options, state_options


def batch_notes(configuration: Configuration) -> list[str]:
    """What a user should know about these settings before a batch job starts."""
    found = []
    if configuration.get(checkpointing_options.INTERVAL) is not None:
        found.append(
            "the job runs in BATCH mode: no checkpoints are taken, and after a failure it reads its whole input again"
        )
    if configuration.contains_key(state_options.BACKEND.key):
        found.append("the job runs in BATCH mode: the state backend has no effect, one key's state is in memory")
    return found


def refuse_start(configuration: Configuration, *, resumes: bool) -> None:
    """Raise if a batch job is to start from a snapshot, or to be resumed."""
    path = configuration.get(checkpointing_options.RECOVERY_PATH)
    if path is not None:
        raise UsageError(
            f"the job runs in BATCH mode and starts without state, so it cannot start from {path}; leave the snapshot "
            f"out, or run the program in STREAMING mode"
        )
    if resumes:
        raise UsageError(
            "the job runs in BATCH mode and takes no checkpoints, so there is nothing to resume; start it without "
            "--resume, or run the program in STREAMING mode"
        )
