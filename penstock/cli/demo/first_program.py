"""A running total per customer. Put more files of orders next to this program while it runs, and watch the totals."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor

ORDERS = Path(__file__).parent / "orders"


class RunningTotal(KeyedProcessFunction):
    """Adds up the orders of each customer."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.DOUBLE()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        total = (self.total.value() or 0.0) + value.amount
        self.total.update(total)
        yield value.customer, total


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(5_000)
    orders = env.from_dataframe(env.spark.readStream.schema("customer string, amount double").json(str(ORDERS)))
    totals = orders.uid("orders").key_by("customer").process(RunningTotal(), "customer string, total double")
    totals.uid("running-total").print()
    env.execute("totals")
