"""`TwoPhaseCommitSink`: the base of sinks for systems whose transactions outlive the process that wrote them (Q5).

A transaction is named after job, sink, attempt and subtask, with a sequence number and a nonce; no name is used twice.
"""

import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.connectors.file.part_names import escape, sink_hash
from penstock.errors import SinkTransactionLostError
from penstock.model.ids import new_nonce
from penstock.model.sink import Sink, SinkContext, SinkWriter
from penstock.model.snapshot import Committable

_REST = re.compile(r"(?P<attempt>\d+)-\d+-\d+-[0-9a-f]+")


class TwoPhaseCommitSink(Sink):
    """A sink on transactions of another system: prepared at a checkpoint, committed when it is complete.

    Plain data: it is pickled to the TaskManagers. `begin`, `write` and `pre_commit` are called there;
    `commit_transaction`, `was_committed` and `pending` in the driver, perhaps by a later attempt or by two drivers at
    once; `abort` in both.
    """

    @abstractmethod
    def begin(self, name: str) -> Any:
        """Open the transaction of this name. The returned object is passed to `write` and `pre_commit`."""

    @abstractmethod
    def write(self, transaction: Any, records: Sequence[Any]) -> None:
        """Write records to an open transaction."""

    @abstractmethod
    def pre_commit(self, transaction: Any) -> None:
        """Make the transaction durable. From here on it can be committed or aborted by name, from any process."""

    @abstractmethod
    def commit_transaction(self, name: str) -> None:
        """Make a prepared transaction visible. Raises any error if it does not exist or if the outcome is unknown."""

    @abstractmethod
    def was_committed(self, name: str) -> bool:
        """Return whether the transaction is known to be committed, however long ago.

        Where the system forgets committed transactions, write the name as a row within the transaction itself.
        """

    @abstractmethod
    def abort(self, name: str, transaction: Any | None) -> None:
        """Drop a transaction that is open or prepared. Does nothing if it is gone.

        `transaction` is what `begin` returned, if it is open in this process.
        """

    @abstractmethod
    def pending(self, prefix: str) -> Iterable[str]:
        """The names with this prefix of prepared transactions, and of open ones if they outlive their process."""

    def open(self, context: SinkContext) -> SinkWriter:
        return _TwoPhaseWriter(self, context)

    def commit(self, committable: Committable) -> None:
        """Commit. If that fails, read back whether it has happened (PROTOCOL R21)."""
        name = committable.transaction
        try:
            self.commit_transaction(name)
        except Exception as error:
            if self.was_committed(name):
                return
            if name in self.pending(name):
                raise
            raise SinkTransactionLostError(
                f"sink {committable.sink_uid!r} has lost {committable.data['rows']} rows of subtask "
                f"{committable.subtask} (epoch {committable.epoch}): transaction {name!r} is neither prepared nor "
                f"committed ({error})"
            ) from error

    def sweep(self, job_id: str, sink_uid: str, keep: Sequence[Committable], before_attempt: int) -> None:
        kept, prefix = {committable.transaction for committable in keep}, _prefix(job_id, sink_uid)
        for name in list(self.pending(prefix)):
            rest = _REST.fullmatch(name.removeprefix(prefix))
            if rest is not None and int(rest["attempt"]) < before_attempt and name not in kept:
                self.abort(name, None)


@dataclass
class _Transaction:
    """A transaction of this writer."""

    name: str
    handle: Any
    row_count: int = 0

    def described(self) -> tuple[str, dict[str, str | int]]:
        return self.name, {"rows": self.row_count}


class _TwoPhaseWriter(SinkWriter):
    """Writes the rows of finished epochs to a transaction, and holds back those of the running one.

    A transaction of another system cannot be truncated. So the rows of an epoch are handed over when the next one
    begins, and a pre-commit gives those of the running epoch a transaction of their own, which `roll_back` can abort.
    """

    def __init__(self, sink: TwoPhaseCommitSink, context: SinkContext) -> None:
        self._sink = sink
        self._prefix = f"{_prefix(context.job_id, context.sink_uid)}{context.attempt}-{context.subtask.index}"
        self._sequence = 0
        self._held: list[Sequence[Any]] = []
        """Of the running epoch."""
        self._open: _Transaction | None = None
        """Of the epochs before."""
        self._prepared: list[_Transaction] = []
        """Of the epochs before, pre-committed in the running epoch."""
        self._running: _Transaction | None = None
        """Of the running epoch, pre-committed."""
        self._is_pre_committed = False

    def begin_epoch(self) -> None:
        if self._is_pre_committed:  # the epoch has finished, and its transactions belong to its checkpoint
            self._prepared, self._running, self._is_pre_committed = [], None, False
        if self._held:
            self._open = self._written(self._open, self._held)
            self._held = []

    def write(self, records: Sequence[Any]) -> None:
        if records:
            self._held.append(records)

    def roll_back(self) -> None:
        self._held = []
        self._is_pre_committed = False
        if self._running is not None:
            running, self._running = self._running, None
            self._sink.abort(running.name, None)

    def pre_commit(self) -> list[tuple[str, dict[str, str | int]]]:
        self._is_pre_committed = True
        if self._open is not None:
            transaction, self._open = self._open, None
            self._sink.pre_commit(transaction.handle)
            self._prepared.append(transaction)
        if self._held:
            self._running, self._held = self._written(None, self._held), []
            self._sink.pre_commit(self._running.handle)
        found = [*self._prepared, self._running] if self._running is not None else self._prepared
        return [transaction.described() for transaction in found]

    def close(self) -> None:
        """Drop what is open. Prepared transactions may belong to a checkpoint and stay."""
        if self._open is not None:
            transaction, self._open = self._open, None
            self._sink.abort(transaction.name, transaction.handle)

    def _written(self, transaction: _Transaction | None, batches: Sequence[Sequence[Any]]) -> _Transaction:
        if transaction is None:
            self._sequence += 1
            name = f"{self._prefix}-{self._sequence}-{new_nonce()}"
            transaction = _Transaction(name, self._sink.begin(name))
        for records in batches:
            self._sink.write(transaction.handle, records)
            transaction.row_count += len(records)
        return transaction


def _prefix(job_id: str, sink_uid: str) -> str:
    return f"{escape(job_id)}-{sink_hash(sink_uid)}-"
