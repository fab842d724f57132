"""A job can be taken over only if its driver is gone, or has been silent for too long."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.control.registry import Registry
from penstock.control.takeover import require_free
from penstock.errors import JobConflictError
from tests.records import A_ID, NO_PID, job_record

NOW_MS = 4_000_000_000_000
LIMIT_MS = 60_000


class FixedClock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_s(self) -> float:
        return 0.0


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path, FixedClock())


def no_pause(_: float) -> None:
    raise AssertionError("there is nothing to wait for")


def test_a_job_whose_driver_writes_its_record_is_refused_with_its_id_and_the_way_out(registry: Registry) -> None:
    registry.write(job_record(updated_ms=NOW_MS - LIMIT_MS + 1))
    with pytest.raises(JobConflictError, match=f"{A_ID}.*cancel it.*penstock.driver.timeout"):
        require_free(registry, "totals", LIMIT_MS, no_pause)


@pytest.mark.parametrize("changed", [{"pid": NO_PID}, {"status": "FAILED"}, {"name": "other"}])
def test_a_job_without_a_driver_is_free(registry: Registry, changed: dict[str, Any]) -> None:
    registry.write(job_record(**{"updated_ms": NOW_MS, **changed}))
    assert require_free(registry, "totals", LIMIT_MS, no_pause) == []


def test_a_driver_that_exists_but_is_silent_is_replaced(registry: Registry) -> None:
    silent = job_record(updated_ms=NOW_MS - LIMIT_MS)
    registry.write(silent)
    assert require_free(registry, "totals", LIMIT_MS, lambda _: None) == [silent]


def test_f22_a_record_that_looks_old_after_a_clock_change_is_checked_again(registry: Registry) -> None:
    registry.write(job_record(updated_ms=NOW_MS - 3_600_000))
    awake: Callable[[float], None] = lambda _: registry.write(job_record(updated_ms=NOW_MS))  # noqa: E731
    with pytest.raises(JobConflictError, match="is running"):
        require_free(registry, "totals", LIMIT_MS, awake)
