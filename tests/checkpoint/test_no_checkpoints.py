"""The log and the coordinator of a job without checkpoints stand in for the real ones."""

import inspect
from typing import Any

import pytest

from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.log.entries import Stopping
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.no_checkpoints import NoCheckpoints, NoJobLog
from penstock.errors import UsageError
from tests.checkpoint.manifests import subtask


@pytest.mark.parametrize(("null", "real"), [(NoCheckpoints, CheckpointCoordinator), (NoJobLog, JobLog)])
def test_every_method_is_called_like_the_real_one(null: type[Any], real: type[Any]) -> None:
    for name, member in inspect.getmembers(null, inspect.isfunction):
        if not name.startswith("_") and hasattr(real, name):
            assert inspect.signature(member) == inspect.signature(getattr(real, name)), name
    assert {name for name in vars(NoCheckpoints) if not name.startswith("_")} <= set(dir(CheckpointCoordinator))


def test_no_checkpoint_starts_and_every_epoch_is_covered() -> None:
    coordinator = NoCheckpoints()
    assert coordinator.start(1, [subtask(0)], forced=True) is None
    assert coordinator.covers(1) and coordinator.is_settled and not coordinator.is_due
    with pytest.raises(UsageError, match="enable_checkpointing"):
        coordinator.request()


def test_the_log_keeps_nothing() -> None:
    log = NoJobLog()
    log.append(Stopping(1))
    assert log.view().stopping is None and not log.view().started and log.storage.list("") == []
