"""Calls into functions that take part in checkpoints: CheckpointedFunction and CheckpointListener."""

from collections.abc import Iterable, Iterator
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


def initialize_functions(functions: Iterable[Any], operator: OperatorContext, restored_checkpoint: int | None) -> None:
    """Give the new function objects of an operator the state of its subtask."""
    operator.operator_states.start_function()
    for function in with_inner(functions):
        if isinstance(function, CheckpointedFunction):
            function.initialize_state(InitializationContext(operator, restored_checkpoint))


def snapshot_functions(functions: Iterable[Any], operator: OperatorContext, header: EpochHeader) -> None:
    """Let the functions of an operator write their state at the end of every epoch (PROTOCOL R11)."""
    checkpointed = [function for function in with_inner(functions) if isinstance(function, CheckpointedFunction)]
    if checkpointed:
        raw = operator.operator_states.raw
        raw.begin_snapshot()
        for function in checkpointed:
            function.snapshot_state(SnapshotContext(operator, header))
        raw.end_snapshot()


def notify_functions(functions: Iterable[Any], completed: int | None, aborted: list[int]) -> None:
    """Notify functions of aborted checkpoints, then of the newest completed one, which covers all before it."""
    for function in with_inner(functions):
        if isinstance(function, CheckpointListener):
            for checkpoint_id in aborted:
                function.notify_checkpoint_aborted(checkpoint_id)
            if completed is not None:
                function.notify_checkpoint_complete(completed)


def with_inner(functions: Iterable[Any]) -> Iterator[Any]:
    """The functions, and the program's functions inside them, such as those of a join by window or a pattern."""
    for function in functions:
        yield function
        yield from with_inner(getattr(function, "inner_functions", ()))
