"""Calls into functions that take part in checkpoints: CheckpointedFunction and CheckpointListener."""

from typing import Any

from penstock.model.functions import KeyedStateStore
from penstock.model.operator_state import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    OperatorStateStore,
    RawState,
)
from penstock.runtime.operators.function_context import OperatorContext
from penstock.runtime.process.messages import EpochHeader


class InitializationContext(FunctionInitializationContext):
    """The context of one function's `initialize_state`."""

    def __init__(self, operator: OperatorContext, restored_checkpoint: int | None) -> None:
        self._operator = operator
        self._restored_checkpoint = restored_checkpoint

    def is_restored(self) -> bool:
        # A function that is created again after a lost task finds the state of earlier epochs (PROTOCOL R11).
        return self._restored_checkpoint is not None or self._operator.operator_states.epochs > 0

    def get_restored_checkpoint_id(self) -> int | None:
        return self._restored_checkpoint

    def get_operator_state_store(self) -> OperatorStateStore:
        return self._operator.operator_states

    def get_keyed_state_store(self) -> KeyedStateStore:
        return self._operator

    def get_raw_state(self) -> RawState:
        return _raw_state(self._operator)


class SnapshotContext(FunctionSnapshotContext):
    """The context of one function's `snapshot_state`."""

    def __init__(self, operator: OperatorContext, header: EpochHeader) -> None:
        self._operator = operator
        self._header = header

    def get_checkpoint_id(self) -> int | None:
        return self._header.checkpoint

    def get_checkpoint_timestamp(self) -> int:
        return self._header.now_ms

    def get_operator_state_store(self) -> OperatorStateStore:
        return self._operator.operator_states

    def get_keyed_state_store(self) -> KeyedStateStore:
        return self._operator

    def get_raw_state(self) -> RawState:
        return _raw_state(self._operator)


def _raw_state(operator: OperatorContext) -> RawState:
    raw = operator.operator_states.raw
    raw.is_used = True
    return raw


def initialize_function(function: Any, operator: OperatorContext, restored_checkpoint: int | None) -> None:
    """Give a new function object the state of its subtask."""
    operator.operator_states.start_function()
    if isinstance(function, CheckpointedFunction):
        function.initialize_state(InitializationContext(operator, restored_checkpoint))


def snapshot_function(function: Any, operator: OperatorContext, header: EpochHeader) -> None:
    """Let a function write its state at the end of every epoch (PROTOCOL R11)."""
    if isinstance(function, CheckpointedFunction):
        raw = operator.operator_states.raw
        raw.begin_snapshot()
        function.snapshot_state(SnapshotContext(operator, header))
        raw.end_snapshot()


def notify_function(function: Any, completed: int | None, aborted: list[int]) -> None:
    """Notify a function of aborted checkpoints, then of the newest completed one, which covers all before it."""
    if isinstance(function, CheckpointListener):
        for checkpoint_id in aborted:
            function.notify_checkpoint_aborted(checkpoint_id)
        if completed is not None:
            function.notify_checkpoint_complete(completed)
