"""A commit to a table format, which another writer of the table may get ahead of."""

from collections.abc import Callable

from penstock.errors import ConnectorUnavailableError, SinkTransactionLostError

CONFLICTS = 5
"""How often a commit is repeated after a conflict with another writer, before the job's own retries."""


def commit_once(where: str, is_published: Callable[[], bool], append: Callable[[], bool]) -> None:
    """Append a checkpoint's rows unless the table has them.

    `append` returns False if another commit came first: then `is_published` must look at the table again.
    """
    for _ in range(CONFLICTS):
        try:
            if is_published() or append():
                return
        except SinkTransactionLostError:
            if is_published():  # by another process, which then deleted the staged rows
                return
            raise
    raise ConnectorUnavailableError(
        f"{where} could not be written: other writers changed it {CONFLICTS} times at the same moment"
    )
