# ruff: noqa: TID251 - the clock is what is wrong here
"""Loaded at the start of a Python process: the time of day is off by as many seconds as the file FAULT_CLOCK says."""

import os
import time

_right_ns = time.time_ns


def _wrong_ns() -> int:
    with open(os.environ["FAULT_CLOCK"], encoding="utf-8") as file:
        return _right_ns() + int(file.read() or 0) * 10**9


if "FAULT_CLOCK" in os.environ:
    time.time_ns = _wrong_ns
    time.time = lambda: _wrong_ns() / 10**9
