"""A commit that fails is reported: what it waits for, once for each reason, and when it went through."""

from collections.abc import Sequence

import pytest

from penstock.errors import ConnectorUnavailableError, SinkTransactionLostError
from penstock.jobmanager.attempt.sink_committer import GraphCommitter
from penstock.model.ids import StageId, SubtaskId
from penstock.model.sink import Sink, SinkContext, SinkWriter
from penstock.model.snapshot import Committable

COMMITTABLE = Committable("orders", SubtaskId(StageId("s1"), 0), 1, "t", {})


class Failing(Sink):
    errors: Sequence[Exception | None] = ()

    def open(self, context: SinkContext) -> SinkWriter:
        raise NotImplementedError

    def commit(self, committable: Committable) -> None:
        error, *self.errors = self.errors
        if error is not None:
            raise error

    def sweep(self, job_id: str, sink_uid: str, keep: Sequence[Committable], before_attempt: int) -> None: ...


def reports(*errors: Exception | None) -> list[str]:
    sink, found = Failing(), list[str]()
    sink.errors = errors
    committer = GraphCommitter("job", {"orders": sink}, None, found.append)
    for error in errors:
        if error is None:
            committer.commit([COMMITTABLE])
        else:
            with pytest.raises(type(error)):
                committer.commit([COMMITTABLE])
    return found


def test_each_reason_is_reported_once_and_the_end() -> None:
    away, full = ConnectorUnavailableError("db is away"), ConnectorUnavailableError("db is full")
    assert reports(away, away, full, full, None, None) == [
        "output of sink 'orders' waits, because its commit failed and is tried again: db is away",
        "output of sink 'orders' waits, because its commit failed and is tried again: db is full",
        "output of sink 'orders' is committed, after it had to wait",
    ]


def test_lost_output_does_not_wait() -> None:
    assert reports(SinkTransactionLostError("gone"), None) == []
