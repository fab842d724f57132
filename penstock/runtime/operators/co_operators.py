"""Operators on two connected streams (features B13): which method a record goes to depends on its input."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from penstock.graph.job_graph import OperatorPlan
from penstock.runtime.operators.batch import Batch
from penstock.runtime.operators.function_context import Context, OperatorContext, OperatorTimers
from penstock.runtime.operators.record_operators import Operator, Output, fire_timers


class TwoInputs(Operator):
    """What all operators on two streams share. `config["second_inputs"]` has the positions of the second stream."""

    def __init__(self, plan: OperatorPlan, context: OperatorContext) -> None:
        super().__init__(plan, context)
        self._second = frozenset(plan.config["second_inputs"])

    def _each_under_its_key(self, batch: Batch) -> Iterator[Any]:
        """The batch's records, with the current key set to theirs where there are keys."""
        if not self.plan.keyed:
            return self._each(batch)
        return self._under_keys(batch)

    def _under_keys(self, batch: Batch) -> Iterator[Any]:
        keys = self.context.current_key()
        for record, keys.key in zip(self._each(batch), batch.keys or (), strict=True):
            yield record

    def process_from(self, position: int, batch: Batch) -> Batch | None:
        return self.process_input(2 if position in self._second else 1, batch)

    @abstractmethod
    def process_input(self, number: int, batch: Batch) -> Batch | None:
        """Process a batch of the first or second stream; returns what the operator emits."""

    def process(self, batch: Batch) -> Batch | None:
        raise AssertionError("an operator on two streams must know which one a batch comes from")


class CoMap(TwoInputs):
    """A CoMapFunction. As in PyFlink, a result of None is no record."""

    def process_input(self, number: int, batch: Batch) -> Batch | None:
        method = f"map{number}"
        call, out = getattr(self.function, method), Output(batch.timestamps, method)
        for record in self._each_under_its_key(batch):
            result = call(record)
            out.extend(None if result is None else (result,))
        return out.batch()


class CoFlatMap(TwoInputs):
    """A CoFlatMapFunction."""

    def process_input(self, number: int, batch: Batch) -> Batch | None:
        method = f"flat_map{number}"
        call, out = getattr(self.function, method), Output(batch.timestamps, method)
        for record in self._each_under_its_key(batch):
            out.extend(call(record))
        return out.batch()


class CoProcess(TwoInputs):
    """A CoProcessFunction or, on keyed streams, a KeyedCoProcessFunction with state and timers."""

    def __init__(self, plan: OperatorPlan, context: OperatorContext) -> None:
        super().__init__(plan, context)
        service = OperatorTimers(self, context.backend() if plan.keyed else None)
        self.timers = service if plan.keyed else None
        self._context = Context(context, service)

    def process_input(self, number: int, batch: Batch) -> Batch | None:
        method = f"process_element{number}"
        call: Callable[[Any, Any], Any] = getattr(self.function, method)
        out, context = Output(batch.timestamps, method), self._context
        timestamps = batch.timestamps or [None] * len(batch)
        for record, timestamp in zip(self._each_under_its_key(batch), timestamps, strict=True):
            context.set_timestamp(timestamp)
            out.extend(call(record, context))
        return out.batch()

    def advance(self, watermark: int, now_ms: int) -> Batch | None:
        super().advance(watermark, now_ms)
        self._records = None
        if self.timers is None:
            return None
        context, call = self._context, self.function.on_timer
        due = self.timers.fire(watermark, now_ms)
        return fire_timers(due, lambda time, domain: call(time, context.for_timer(time, domain)))


CO_KINDS: dict[str, type[Operator]] = {
    "co_map": CoMap,
    "co_flat_map": CoFlatMap,
    "co_process": CoProcess,
    "keyed_co_map": CoMap,
    "keyed_co_flat_map": CoFlatMap,
    "keyed_co_process": CoProcess,
}
