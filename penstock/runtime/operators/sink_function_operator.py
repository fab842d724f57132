"""A SinkFunction at the end of a chain: called for each record, with operator state like any other function."""

from penstock.graph.job_graph import OperatorPlan
from penstock.model.sink_functions import SinkFunction
from penstock.runtime.operators.batch import Batch
from penstock.runtime.operators.function_context import OperatorContext
from penstock.runtime.operators.record_operators import Operator


class SinkFunctionOperator(Operator):
    """Calls `invoke` for each record, and `finish` in the epoch that ends the input. Emits nothing."""

    def __init__(self, plan: OperatorPlan, context: OperatorContext) -> None:
        super().__init__(plan, context)
        self._sink_context = _Times(self)

    def process(self, batch: Batch) -> Batch | None:
        call, context = self.function.invoke, self._sink_context
        timestamps = batch.timestamps or [None] * len(batch)
        for record, context.record_timestamp in zip(self._each(batch), timestamps, strict=True):
            call(record, context)
        return None

    def advance(self, watermark: int, now_ms: int) -> Batch | None:
        super().advance(watermark, now_ms)
        if self.context.subtask.ends_time:
            self._records = None
            self.function.finish()
        return None


RecordTimes = SinkFunction.Context


class _Times(RecordTimes):
    """The context of one record; one object per operator, reused for every record."""

    def __init__(self, operator: SinkFunctionOperator) -> None:
        self._operator = operator
        self.record_timestamp: int | None = None

    def current_processing_time(self) -> int:
        return self._operator.context.subtask.now_ms

    def current_watermark(self) -> int:
        return self._operator.watermark

    def timestamp(self) -> int | None:
        return self.record_timestamp
