"""A transactional sink in memory. Tests can inspect what it has committed and what crashes have left behind.

    sink = MemorySink()
    h = Harness.keyed(RunningTotal(), key=lambda r: r.customer, sink=sink)
    h.feed([order("ada", 2.0), CHECKPOINT, order("ada", 3.0), CRASH])
    assert sink.rows == [("ada", 2.0)]      # the second order is not in a checkpoint yet

Its store stands for an external system that outlives the job's processes. An open transaction of a crashed attempt
stays until it is swept, a prepared one until it is committed or swept. Committed ones are remembered for ever.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from weakref import WeakValueDictionary

from penstock.errors import SinkTransactionLostError, UsageError
from penstock.model.ids import new_nonce
from penstock.model.sink import Sink, SinkContext, SinkWriter
from penstock.model.snapshot import Committable


class Phase(Enum):
    """The phase of a transaction."""

    OPEN = "rows can be added"
    PREPARED = "it can be committed by any process"
    COMMITTED = "its rows are visible"


@dataclass
class Transaction:
    """Some rows of one subtask, visible all together or not at all."""

    name: str
    context: SinkContext
    rows: list[Any] = field(default_factory=list)
    phase: Phase = Phase.OPEN


class SinkStore:
    """The system that a MemorySink writes to. It survives the crashes of a harness."""

    def __init__(self) -> None:
        self.id = new_nonce()
        self.commit_count = 0
        self.repeated_commit_count = 0
        """Commits of transactions that were committed before; they change nothing."""
        self._transactions: dict[str, Transaction] = {}
        self._committed: list[Transaction] = []
        self.called: Callable[[str, str], None] = lambda when, transaction: None
        """Called "before" and "after" each commit with the transaction's name; what it raises fails the commit."""
        _stores[self.id] = self

    def begin(self, context: SinkContext, rows: Sequence[Any] = ()) -> Transaction:
        """A new transaction with these rows."""
        name = f"{context.job_id}-{context.attempt}-{context.sink_uid}-{context.subtask}-{new_nonce()}"
        transaction = self._transactions[name] = Transaction(name, context, list(rows))
        return transaction

    def abort(self, transaction: Transaction) -> None:
        """Drop a transaction that is not committed."""
        assert transaction.phase is not Phase.COMMITTED
        self._transactions.pop(transaction.name, None)

    def commit(self, committable: Committable) -> None:
        """Make the rows visible. Committing again changes nothing."""
        transaction = self._transactions.get(committable.transaction)
        if transaction is None or transaction.phase is Phase.OPEN:
            found = "is not there" if transaction is None else "was not prepared"
            raise SinkTransactionLostError(
                f"sink {committable.sink_uid!r} has lost {committable.data.get('rows')} rows of subtask "
                f"{committable.subtask}: transaction {committable.transaction!r} {found}"
            )
        if transaction.phase is Phase.COMMITTED:
            self.repeated_commit_count += 1
            return
        transaction.phase = Phase.COMMITTED
        self.commit_count += 1
        self._committed.append(transaction)

    @property
    def rows(self) -> list[Any]:
        """All visible rows, in the order of their commits."""
        return [row for transaction in self._committed for row in transaction.rows]

    @property
    def committed(self) -> list[str]:
        """The names of committed transactions, in the order of their commits."""
        return [transaction.name for transaction in self._committed]

    @property
    def unsettled(self) -> list[Transaction]:
        """Transactions that are neither committed nor aborted."""
        return [found for found in self._transactions.values() if found.phase is not Phase.COMMITTED]


_stores: WeakValueDictionary[str, SinkStore] = WeakValueDictionary()


class MemorySink(Sink):
    """Writes rows to a SinkStore of this process, exactly once. For the harness: no other process sees the store."""

    def __init__(self, store: SinkStore | None = None) -> None:
        self.store = store or SinkStore()

    def __reduce__(self) -> tuple[Any, ...]:
        return _sink_of, (self.store.id,)

    @property
    def rows(self) -> list[Any]:
        """All committed rows."""
        return self.store.rows

    def open(self, context: SinkContext) -> SinkWriter:
        return _MemoryWriter(self.store, context)

    def commit(self, committable: Committable) -> None:
        self.store.called("before", committable.transaction)
        self.store.commit(committable)
        self.store.called("after", committable.transaction)

    def sweep(self, job_id: str, sink_uid: str, keep: Sequence[Committable], before_attempt: int) -> None:
        needed = {committable.transaction for committable in keep}
        for transaction in self.store.unsettled:
            who = transaction.context
            is_old = (who.job_id, who.sink_uid) == (job_id, sink_uid) and who.attempt < before_attempt
            if is_old and transaction.name not in needed:
                self.store.abort(transaction)


class _MemoryWriter(SinkWriter):
    """One subtask's transaction: open from its first row to the next checkpoint."""

    def __init__(self, store: SinkStore, context: SinkContext) -> None:
        self._store = store
        self._context = context
        self._open: Transaction | None = None
        self._prepared: Transaction | None = None
        """Pre-committed in the running epoch."""
        self._mark = 0

    def begin_epoch(self) -> None:
        self._mark = 0 if self._open is None else len(self._open.rows)
        self._prepared = None

    def write(self, records: Sequence[Any]) -> None:
        if self._open is None:
            self._open = self._store.begin(self._context)
        self._open.rows.extend(records)

    def roll_back(self) -> None:
        held = self._prepared or self._open
        if held is None:
            return
        # The rows of earlier epochs move to a new transaction, so that no committable of this run publishes them.
        self._store.abort(held)
        self._open = self._store.begin(self._context, held.rows[: self._mark]) if self._mark else None
        self._prepared = None

    def pre_commit(self) -> list[tuple[str, dict[str, str | int]]]:
        if self._open is None:
            return []
        self._open.phase = Phase.PREPARED
        self._prepared, self._open = self._open, None
        return [(self._prepared.name, {"rows": len(self._prepared.rows)})]

    def close(self) -> None:
        if self._open is not None:
            self._store.abort(self._open)
            self._open = None


def _sink_of(store_id: str) -> MemorySink:
    store = _stores.get(store_id)
    if store is None:
        raise UsageError("a MemorySink works only in the process that made it; use it with a Harness")
    return MemorySink(store)
