"""The warning when a job continues with another number of key groups."""

from typing import Any

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.jobmanager.attempt.attempt import JobIdentity
from penstock.jobmanager.attempt.recovery import RecoveryOptions, begin_attempt
from penstock.model.functions import MapFunction
from penstock.testing import CHECKPOINT, Harness
from penstock.testing.graphs import FunctionProgram, function_graph
from penstock.testing.harness_options import JOB_ID


class Same(MapFunction):
    def map(self, value: Any) -> Any:
        return value


class Hook:
    def completed(self, checkpoint_id: int) -> None: ...

    def aborted(self, checkpoint_id: int, reason: str) -> None: ...


def said(max_parallelism: int) -> list[str]:
    harness = Harness.keyed(Same(), key=str, max_parallelism=128).feed([1, CHECKPOINT])
    graph = function_graph(FunctionProgram(Same(), str, max_parallelism=max_parallelism))
    warnings: list[str] = []
    options = RecoveryOptions(CheckpointSettings(interval_ms=None), reopen=True, warn=warnings.append)
    begin_attempt(JobIdentity(JOB_ID, "test", "test"), graph, harness.storage, options, Hook(), harness.clock)
    return warnings


def test_e7_the_user_is_warned_of_key_groups_that_are_split_anew() -> None:
    (warning,) = said(256)
    assert warning.startswith("max parallelism was 128 in checkpoint 1 and is 256 now")


def test_e7_nobody_is_warned_of_the_same_key_groups() -> None:
    assert said(128) == []
