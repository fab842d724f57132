"""What tests share in which a broker or a database goes while a commit is under way, and is away for a minute."""

from collections.abc import Callable

from tests.faults.jobs import JobProcess
from tests.waiting import LIMIT_S, Stopwatch, wait_until

AWAY_S = 60
WAITS = "output of sink 'out' waits, because"
SHORT_RETRIES = (
    ("penstock.sink.commit-timeout", "5 s"),
    ("restart-strategy.type", "fixed-delay"),
    ("restart-strategy.fixed-delay.attempts", "100"),
    ("restart-strategy.fixed-delay.delay", "1 s"),
)
"""A commit that fails for so long ends the attempt, and there are enough restarts for the whole outage."""


def wait_for(driver: JobProcess, happened: Callable[[], bool]) -> None:
    """Wait, as long as the driver lives."""

    def asked() -> bool:
        assert driver.exit_code is None, f"the driver ended with {driver.exit_code}: {driver.log_tail()}"
        return happened()

    wait_until(asked, timeout_s=LIMIT_S, pause_s=0.01)


def wait_out(driver: JobProcess) -> None:
    """A minute without the other system, in which the job says that it waits."""
    away = Stopwatch()
    wait_for(driver, lambda: WAITS in driver.said())
    wait_until(lambda: away.seconds() > AWAY_S)


def wait_out_with_restarts(driver: JobProcess) -> None:
    """The same for a job with `SHORT_RETRIES`: its first attempt ends, and the next one waits too."""
    away = Stopwatch()
    wait_for(driver, lambda: "attempt 1 has failed, the job restarts in 1 s: checkpoint" in driver.said())
    assert "was not committed in time" in driver.said(), driver.log_tail()
    wait_for(driver, lambda: driver.said().count(WAITS) > 1)
    wait_until(lambda: away.seconds() > AWAY_S)
