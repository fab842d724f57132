"""What an operator does that aggregates columns by window, as the program describes it, with checks before it runs."""

from dataclasses import dataclass
from typing import Any

from penstock.errors import UsageError
from penstock.model.column_aggregates import BoundAggregate
from penstock.model.output_tag import OutputTag
from penstock.model.session_windows import EventTimeSessionWindows
from penstock.model.window_assigners import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner

WINDOW_START, WINDOW_END = "window_start", "window_end"
_ASSIGNERS = (TumblingEventTimeWindows, SlidingEventTimeWindows, EventTimeSessionWindows)


@dataclass(frozen=True)
class AggregateWindows:
    """The function of an operator of kind `keyed_aggregate_window`."""

    assigner: WindowAssigner[Any, Any]
    aggregates: tuple[BoundAggregate, ...]
    allowed_lateness_ms: int = 0
    late_tag: OutputTag | None = None
    """The side output of late records; None: they are dropped and counted."""


def check_assigner(assigner: WindowAssigner[Any, Any], *, has_trigger: bool) -> None:
    """Raise unless columns can be aggregated by these windows."""
    name = type(assigner).__name__
    if type(assigner) not in _ASSIGNERS:
        known = ", ".join(kind.__name__ for kind in _ASSIGNERS)
        raise UsageError(
            f"agg() of {name!r} is not supported: it aggregates columns by {known}; use aggregate() with an "
            f"AggregateFunction for other windows"
        )
    if has_trigger:
        raise UsageError(
            f"agg() of {name!r} fires windows at their end, and again for late records; remove trigger(), or use "
            f"aggregate() with an AggregateFunction"
        )


def check_aggregates(assigner: WindowAssigner[Any, Any], aggregates: tuple[BoundAggregate, ...]) -> None:
    """Raise for aggregates that depend on the order of arrival, which sessions that are merged do not know."""
    ordered = [aggregate for aggregate in aggregates if aggregate.kind in ("first", "last")]
    if ordered and isinstance(assigner, EventTimeSessionWindows):
        raise UsageError(
            f"agg() of {type(assigner).__name__!r}: {ordered[0].name}=agg.{ordered[0].kind}(...) depends on the order "
            f"of arrival, which is lost when sessions are merged; use agg.min or agg.max of a time, or aggregate()"
        )
