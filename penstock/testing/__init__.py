"""Test instruments for users' own functions: `Harness`, `ManualClock`, and conformance suites."""

from penstock.testing.clocks import ManualClock
from penstock.testing.harness import CHECKPOINT, CRASH, Advance, Harness, Watermark

__all__ = ["CHECKPOINT", "CRASH", "Advance", "Harness", "ManualClock", "Watermark"]
