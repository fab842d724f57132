"""Paths that a job needs, checked before Spark starts: a wrong one is known in a moment instead of after ten seconds.

Only what can be seen at once is checked. The checks of the job itself, which read the snapshot and write to the folder,
follow when it is submitted.
"""

from penstock.checkpoint.snapshot.snapshot_location import locate
from penstock.model.configuration import Configuration
from penstock.model.options import checkpointing_options
from penstock.storage.address import require_folder


def require_paths(configuration: Configuration, *, resumes: bool) -> None:
    """Raise unless the snapshot to start from is there, and the folders of checkpoints and savepoints can be written.

    A job that `resumes` may not need the snapshot.
    """
    path = configuration.get(checkpointing_options.RECOVERY_PATH)
    if path and not resumes:
        locate(path)
    if configuration.get(checkpointing_options.INTERVAL):
        directory = configuration.get(checkpointing_options.DIRECTORY)
        in_files = configuration.get(checkpointing_options.STORAGE) != "jobmanager"
        if directory or in_files:
            require_folder(directory or checkpointing_options.DEFAULT_DIRECTORY, "checkpoint folder")
    savepoints = configuration.get(checkpointing_options.SAVEPOINT_DIRECTORY)
    if savepoints:
        require_folder(savepoints, "savepoint folder")
