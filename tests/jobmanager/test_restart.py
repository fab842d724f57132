"""When and how often a failed job starts again (features P1 to P5)."""

import pytest

from penstock.control.effective_settings import load_settings
from penstock.errors import ConfigurationError
from penstock.jobmanager.restart_strategy import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    Restarts,
    RestartStrategy,
)
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.model.configuration import Configuration
from penstock.model.option_types import INFINITE
from penstock.testing.clocks import ManualClock

KEY = "restart-strategy."


def configured(keys: dict[str, str], *, checkpointing: bool = True) -> RestartStrategy:
    interval = {"execution.checkpointing.interval": "1s"} if checkpointing else {}
    merged = load_settings(Configuration.from_dict({**interval, **keys}), {}, []).configuration
    return JobSettings.of("job", merged).restart


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0)


def delays(strategy: RestartStrategy, clock: ManualClock, gaps_s: list[float], jitter: float = 0) -> list[float | None]:
    """The pause after each failure; each comes so many seconds after the job was to run again."""
    restarts = Restarts(strategy, clock, lambda: jitter)
    found = []
    for gap_s in gaps_s:
        clock.advance(int(gap_s * 1000))
        found.append(restarts.after_failure())
        clock.advance(int((found[-1] or 0) * 1000))
    return found


@pytest.mark.parametrize("word", ["none", "off", "disable"])
def test_p1_without_restarts_the_first_failure_is_the_last(word: str, clock: ManualClock) -> None:
    strategy = configured({KEY + "type": word})
    assert strategy == NoRestart()
    assert delays(strategy, clock, [0]) == [None]


def test_p1_it_is_the_default_without_checkpoints() -> None:
    assert configured({}, checkpointing=False) == NoRestart()


def test_p2_the_fourth_failure_is_too_many_for_three_attempts(clock: ManualClock) -> None:
    keys = {KEY + "type": "fixed-delay", KEY + "fixed-delay.attempts": "3", KEY + "fixed-delay.delay": "5s"}
    assert delays(configured(keys), clock, [0, 3600, 0, 0]) == [5.0, 5.0, 5.0, None]


def test_p2_one_attempt_after_a_second_unless_set() -> None:
    assert configured({KEY + "type": "fixed-delay"}) == FixedDelay(1, 1000)
    assert configured({"restart-strategy": "fixeddelay"}) == FixedDelay(1, 1000)


def test_p3_more_failures_than_allowed_in_the_interval_end_the_job(clock: ManualClock) -> None:
    keys = {
        KEY + "type": "failure-rate",
        KEY + "failure-rate.max-failures-per-interval": "2",
        KEY + "failure-rate.failure-rate-interval": "60s",
        KEY + "failure-rate.delay": "0s",
    }
    assert delays(configured(keys), clock, [0, 30, 31, 30, 10]) == [0.0, 0.0, 0.0, 0.0, None]


def test_p3_one_failure_in_a_minute_unless_set() -> None:
    assert configured({KEY + "type": "failure-rate"}) == FailureRate(1, 60_000, 1000)


def test_p4_the_pause_grows_by_half_up_to_a_minute(clock: ManualClock) -> None:
    found = delays(ExponentialDelay(jitter=0), clock, [0] * 14)
    assert found[:4] == [1.0, 1.5, 2.25, 3.375]
    assert found[-1] == 60.0 and found == sorted(d for d in found if d is not None)


def test_p4_after_a_time_without_failure_it_is_the_first_again(clock: ManualClock) -> None:
    strategy = ExponentialDelay(jitter=0, reset_ms=10_000)
    assert delays(strategy, clock, [0, 1, 9.999, 10, 1]) == [1.0, 1.5, 2.25, 1.0, 1.5]


@pytest.mark.parametrize(("jitter", "expected"), [(1.0, [1.1, 1.65]), (-1.0, [0.9, 1.35])])
def test_p4_a_random_part_is_added_or_taken_away(jitter: float, expected: list[float], clock: ManualClock) -> None:
    assert delays(ExponentialDelay(), clock, [0, 0], jitter) == pytest.approx(expected)


def test_p4_no_pause_is_longer_than_the_longest(clock: ManualClock) -> None:
    strategy = ExponentialDelay(initial_ms=1000, max_ms=1200, multiplier=10)
    assert delays(strategy, clock, [0, 0], 1.0) == pytest.approx([1.1, 1.2])


def test_p4_so_many_attempts_unless_a_time_without_failure_came_between(clock: ManualClock) -> None:
    strategy = ExponentialDelay(jitter=0, reset_ms=10_000, attempts=2)
    assert delays(strategy, clock, [0, 0, 10, 0, 0]) == [1.0, 1.5, 1.0, 1.5, None]


def test_p4_it_is_the_default_with_checkpoints_and_never_gives_up(clock: ManualClock) -> None:
    strategy = configured({})
    assert strategy == ExponentialDelay(1000, 60_000, 1.5, 3_600_000, 0.1, INFINITE)
    assert None not in delays(strategy, clock, [0] * 1000)


def test_p4_every_part_can_be_set() -> None:
    prefix = KEY + "exponential-delay."
    keys = {
        KEY + "type": "exponential-delay",
        prefix + "initial-backoff": "2s",
        prefix + "max-backoff": "3 min",
        prefix + "backoff-multiplier": "2",
        prefix + "reset-backoff-threshold": "1 h",
        prefix + "jitter-factor": "0.5",
        prefix + "attempts-before-reset-backoff": "7",
    }
    assert configured(keys) == ExponentialDelay(2000, 180_000, 2.0, 3_600_000, 0.5, 7)
    assert configured({**keys, prefix + "attempts-before-reset-backoff": "infinite"}) == ExponentialDelay(
        2000, 180_000, 2.0, 3_600_000, 0.5, INFINITE
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("exponential-delay.backoff-multiplier", "1"),
        ("exponential-delay.max-backoff", "1 ms"),
        ("exponential-delay.jitter-factor", "1.5"),
        ("exponential-delay.attempts-before-reset-backoff", "many"),
    ],
)
def test_impossible_settings_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match="exponential-delay"):
        configured({KEY + "type": "exponential-delay", KEY + name: value})


def test_p5_without_a_strategy_of_the_program_the_configured_one_holds() -> None:
    program = Configuration.from_dict({"execution.checkpointing.interval": "1s"})
    merged = load_settings(program, {KEY + "type": "failure-rate"}, []).configuration
    assert JobSettings.of("job", merged).restart == FailureRate()
