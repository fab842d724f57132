"""A crash at every point of the checkpoint code, at every passage; then recovery (PROTOCOL sections 8, 9)."""

import pytest

from penstock import failpoint
from penstock.checkpoint.failures import FailureReason
from penstock.checkpoint.log.log_reader import read_log
from penstock.failpoint import Failpoint, InjectedCrash
from tests.checkpoint.driver import World, new_driver, new_world

POINTS = ("C1", "C13", "C14", "C15", "C17", "C18", "C19", "C20", "C21", "C22", "C23", "C30", "C31")
MAX_HITS = 400
CHECKPOINTS = 5


@pytest.fixture(autouse=True)
def disarmed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("penstock.checkpoint.log.job_log.BASE_EVERY", 9)  # so that compaction is met too
    yield
    failpoint.disarm()


def work(world: World) -> None:
    """A job from its beginning, or from where the last crash left it, to its end."""
    driver = new_driver(world)
    while world.checker.complete_count < CHECKPOINTS:
        driver.run_epoch(2)
        number = driver.run_epoch(3, forced=True)
        driver.write_all()
        if number is not None and number % 3 == 2:
            driver.coordinator.abort_all(FailureReason.SHUTDOWN)
        driver.settle()
    driver.run_epoch(0, forced=True, final=True)
    driver.write_all()
    driver.settle()
    driver.finish()


def run_with_crash(point: Failpoint, *, power_cut: bool) -> bool:
    """Whether the point was reached; the job is at its end in any case, and everything holds."""
    world = new_world(seed=point.hit)
    failpoint.arm(point)
    crashed = False
    try:
        work(world)
    except InjectedCrash:
        crashed = True
    failpoint.disarm()
    if crashed:
        if power_cut:
            world.checker.power_cut()
        recover(world)
    check_end(world)
    return crashed


def recover(world: World) -> None:
    """What a new attempt does with what is left: two more checkpoints, and the end."""
    if read_log(world.checker.storage).is_terminal:
        return  # it crashed behind the last word
    driver = new_driver(world)
    if driver.manifest is not None and driver.manifest.final:
        world.sinks.require_rows(driver.manifest.sources.batch_id)
        driver.finish()
        return
    for _ in range(2):
        driver.checkpoint()
    world.sinks.require_rows(driver.position)
    assert world.checker.orphans() == [], "I-4"
    driver.run_epoch(0, forced=True, final=True)
    driver.write_all()
    driver.settle()
    driver.finish()


def check_end(world: World) -> None:
    newest = world.checker.newest
    assert newest is not None
    world.sinks.require_rows(newest.sources.batch_id)
    assert len(world.checker.retained) <= 2


@pytest.mark.parametrize("power_cut", [False, True], ids=["process", "power"])
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("name", POINTS)
def test_the_job_recovers_from_a_crash_at(name: str, side: str, power_cut: bool) -> None:
    for hit in range(1, MAX_HITS):
        if not run_with_crash(Failpoint(f"{name}.{side}", "raise", hit=hit), power_cut=power_cut):
            assert hit > 1, "the point was never reached"
            return
    raise AssertionError(f"{name} was passed more than {MAX_HITS} times")
