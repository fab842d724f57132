"""What all tests share: deterministic hypothesis, and the counts that `scripts/tiers.py` adds up."""

import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.quick_jvm import use_quick_jvm
from tests.service_fixtures import database, hdfs, kafka, postgres

__all__ = ["database", "hdfs", "kafka", "postgres"]

settings.register_profile(
    "penstock",
    max_examples=30,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", parent=settings.get_profile("penstock"), max_examples=100)
settings.register_profile("explore", parent=settings.get_profile("penstock"), derandomize=False, max_examples=1000)
settings.register_profile(
    "no-shrinking", parent=settings.get_profile("thorough"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "penstock"))

# No test, and no process that one starts, reads the configuration file of whoever runs it.
os.environ["XDG_CONFIG_HOME"] = os.devnull
os.environ.pop("PENSTOCK_CONF_DIR", None)


# Tests start hundreds of Python processes; without compiled files each of them spends half its start on compiling.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
use_quick_jvm()

# A shell lets what it starts in the background ignore Ctrl-C, and every process of a test would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

PATIENCE_S = 1_200
"""Of the tests on Spark and with processes, which take longer the busier the machine is."""

COUNTS_FILE = os.environ.pop("PENSTOCK_TEST_COUNTS", None)
"""For this process alone: a pytest that a test starts has counts of its own."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_slow = item.get_closest_marker("spark") or item.get_closest_marker("process")
        if is_slow and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE_S))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if COUNTS_FILE is None:
        return
    kinds = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")
    counts = {kind: len(terminalreporter.stats.get(kind, [])) for kind in kinds}
    Path(COUNTS_FILE).write_text(json.dumps(counts), encoding="utf-8")
