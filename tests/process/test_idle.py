"""A job that has nothing to do costs next to nothing."""

import pytest

from bench.idle import LIMIT_PERCENT, measure, to_line

pytestmark = [pytest.mark.process, pytest.mark.full]

WINDOW_S = 15.0
SETTLE_S = 10.0


@pytest.mark.parametrize("is_watched", [False, True], ids=["alone", "watched"])
def test_an_idle_job_uses_less_than_a_tenth_of_one_core(is_watched: bool) -> None:
    """`python -m bench.idle` measures the same over a minute."""
    percent = measure(WINDOW_S, SETTLE_S, is_watched=is_watched)
    print(to_line(percent, WINDOW_S))
    assert sum(percent.values()) < LIMIT_PERCENT, percent
