"""Test instruments for users' own functions: `Harness`, `MemorySink`, `ManualClock`, and conformance suites."""

from penstock.testing.clocks import ManualClock
from penstock.testing.harness import Harness
from penstock.testing.harness_exchange import Broadcast, Second
from penstock.testing.harness_input import CHECKPOINT, CRASH, Advance, Watermark
from penstock.testing.memory_sink import MemorySink
from penstock.testing.spark_processors import spark_processor

__all__ = [
    "Advance",
    "Broadcast",
    "CHECKPOINT",
    "CRASH",
    "Harness",
    "ManualClock",
    "MemorySink",
    "Second",
    "Watermark",
    "spark_processor",
]
