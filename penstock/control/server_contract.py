"""What a control server and its client agree on. Neither HTTP library is imported here."""

from penstock.model.options import checkpointing_options

NO_LOCATION = (
    "No savepoint location given and no default location configured. "
    f"Give a folder, or set {checkpointing_options.SAVEPOINT_DIRECTORY.key}"
)
"""The answer to a request for a savepoint without a folder."""
LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
"""The hosts that are this machine."""
