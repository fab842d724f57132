"""Publishing the rows of a checkpoint in one Kafka transaction, together with a marker.

The order of steps is what makes a repeated commit harmless:

1. `start` initializes the transactions of the owner's `transactional.id`. From then on an older driver is fenced: it
   can neither send nor commit. A transaction that it has left open is resolved: committed if the broker had begun to
   commit it, aborted otherwise.
2. The marker is read. Nobody else can change it any more.
3. If it is lower than that of the rows, a transaction writes the rows, then the marker, and commits.

A step that fails leaves the outcome unknown: the client is dropped, and the next call begins with step 1. While no
step fails, the client is kept, and steps 1 and 2 are not repeated: a commit that succeeds proves that no other driver
has intervened.
"""

import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Protocol

from penstock.connectors.kafka.kafka_records import KafkaRecord, decode
from penstock.connectors.staged.staged_sink import StagedOutput

NO_MARKER = -1
MAX_OPEN = 16
"""Clients that are kept open in one driver, for as many sinks."""


class TransactionClient(Protocol):
    """The transactions of one owner. An error ends its use; only `close` may follow."""

    def start(self) -> None:
        """Fence older clients of this `transactional.id`, and wait until their last transaction is resolved."""
        ...

    def read_marker(self) -> int:
        """The stored marker of the owner; NO_MARKER if there is none."""
        ...

    def begin(self) -> None: ...
    def send(self, records: Iterable[KafkaRecord]) -> None: ...

    def store_marker(self, marker: int) -> None:
        """Wait until the broker has all records that were sent, then send the marker in the same transaction."""
        ...

    def commit(self) -> None: ...

    def close(self) -> None:
        """Abort a transaction that is open, if that is possible now, and disconnect."""
        ...


class KafkaTransactions:
    """The transactions of one owner. Thread-safe: calls run one at a time."""

    def __init__(self, open_client: Callable[[], TransactionClient]) -> None:
        self._open_client = open_client
        self._client: TransactionClient | None = None
        self._marker = NO_MARKER
        self._lock = threading.Lock()

    def publish(self, output: StagedOutput) -> None:
        """Make the rows visible unless they are. After an error the outcome is unknown; the next call finds out."""
        with self._lock:
            try:
                client = self._started()
                if not output.is_covered_by(self._marker):
                    client.begin()
                    for batch in output.batches():
                        client.send(decode(batch))
                    client.store_marker(output.marker)
                    client.commit()
                    self._marker = output.marker
            except BaseException:
                self._drop()
                raise

    def close(self) -> None:
        """Disconnect."""
        with self._lock:
            self._drop()

    def _started(self) -> TransactionClient:
        if self._client is None:
            self._client = self._open_client()
            self._client.start()
            self._marker = self._client.read_marker()
        return self._client

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


_open: dict[Hashable, KafkaTransactions] = {}
_open_lock = threading.Lock()


def kept_transactions(key: Hashable, open_client: Callable[[], TransactionClient]) -> KafkaTransactions:
    """The transactions of this process for `key`; a sink is plain data and cannot hold them."""
    with _open_lock:
        found = _open.pop(key, None) or KafkaTransactions(open_client)
        _open[key] = found  # the most recently used one comes last
        oldest = [_open.pop(next(iter(_open))) for _ in range(len(_open) - MAX_OPEN)]
    for transactions in oldest:
        transactions.close()
    return found
