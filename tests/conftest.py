"""What all tests share: deterministic hypothesis, and the counts that `scripts/tiers.py` adds up."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "penstock", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", parent=settings.get_profile("penstock"), derandomize=False, max_examples=1000)
settings.register_profile(
    "no-shrinking", parent=settings.get_profile("penstock"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "penstock"))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    report = os.environ.get("PENSTOCK_TEST_COUNTS")
    if report is None:
        return
    kinds = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")
    counts = {kind: len(terminalreporter.stats.get(kind, [])) for kind in kinds}
    Path(report).write_text(json.dumps(counts), encoding="utf-8")
