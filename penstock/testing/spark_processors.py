"""StatefulProcessors of Spark in a harness."""

from typing import TYPE_CHECKING, Any, Literal

from penstock.errors import ArgumentError
from penstock.model.types import resolve_type

if TYPE_CHECKING:
    from penstock.model.epoch_functions import KeyedEpochFunction

TimeMode = Literal["None", "ProcessingTime", "EventTime"]


def spark_processor(
    processor: Any, input_type: Any, output_type: Any, *, time_mode: TimeMode = "None", pandas: bool = False
) -> "KeyedEpochFunction":
    """A StatefulProcessor written for Spark's `transformWithState`, for `Harness.keyed`; the types are structs.

        totals = spark_processor(Totals(), "customer string, amount double", "customer string, total double")
        harness = Harness.keyed(totals, key=lambda order: order[0])

    Records that are fed are Rows or tuples of the input type. `pandas`: written for `transformWithStateInPandas`.
    """
    from penstock.spark.stateful_processors import TIME_DOMAINS, ProcessorSettings, SparkProcessorFunction

    types = resolve_type(input_type), resolve_type(output_type)
    for name, found in zip(("input_type", "output_type"), types, strict=True):
        if found.names is None:
            raise ArgumentError(f'{name}={found.text}: a struct is required; write "customer string, amount double"')
    if time_mode not in TIME_DOMAINS:
        raise ArgumentError(f"time_mode={time_mode!r}; it is {', '.join(map(repr, TIME_DOMAINS))}")
    form: Literal["rows", "pandas"] = "pandas" if pandas else "rows"
    settings = ProcessorSettings(form=form, time_mode=time_mode, input_type=types[0], output_type=types[1])
    return SparkProcessorFunction(processor, settings)
