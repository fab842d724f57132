"""Which operator runs which kind of function."""

from penstock.errors import TypeMismatchError
from penstock.graph.interval_bounds import INTERVAL_JOIN
from penstock.graph.job_graph import KEYED_AGGREGATE_WINDOW, KEYED_BATCH, OperatorPlan
from penstock.graph.window_operation import KEYED_WINDOW
from penstock.runtime.operators.aggregate_window_operator import AggregateWindowOperator
from penstock.runtime.operators.async_operator import AsyncWait
from penstock.runtime.operators.batch_operator import KeyedBatch
from penstock.runtime.operators.broadcast_operator import BroadcastOperator
from penstock.runtime.operators.co_operators import CO_KINDS
from penstock.runtime.operators.epoch_operator import KeyedEpoch
from penstock.runtime.operators.function_context import OperatorContext
from penstock.runtime.operators.interval_join_operator import IntervalJoinOperator
from penstock.runtime.operators.record_operators import KINDS, Operator
from penstock.runtime.operators.side_outputs import SideOutput
from penstock.runtime.operators.sink_function_operator import SinkFunctionOperator
from penstock.runtime.operators.window_operator import WindowOperator

EVERY_KIND: dict[str, type[Operator]] = {
    **KINDS,
    "broadcast": BroadcastOperator,
    "keyed_broadcast": BroadcastOperator,
    **CO_KINDS,
    INTERVAL_JOIN: IntervalJoinOperator,
    "keyed_epoch": KeyedEpoch,
    KEYED_BATCH: KeyedBatch,
    KEYED_AGGREGATE_WINDOW: AggregateWindowOperator,
    "side_output": SideOutput,
    KEYED_WINDOW: WindowOperator,
    "async_wait": AsyncWait,
    "sink_function": SinkFunctionOperator,
}


def make_operator(plan: OperatorPlan, context: OperatorContext) -> Operator:
    """The operator of a plan, not yet opened."""
    kind = EVERY_KIND.get(plan.kind)
    if kind is None:
        raise TypeMismatchError(f"operator {plan.name!r} is of an unknown kind {plan.kind!r}")
    return kind(plan, context)
