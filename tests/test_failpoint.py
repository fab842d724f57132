"""Failpoints: what the environment variable says, when a point fires, and what its log holds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import failpoint
from penstock.failpoint import Failpoint, InjectedCrash


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    failpoint.disarm()
    failpoint.set_role("driver")


def pass_points(count: int, name: str = "C8") -> int:
    """How many of so many passages raised."""
    crashes = 0
    for _ in range(count):
        try:
            failpoint.before(name)
        except InjectedCrash:
            crashes += 1
    return crashes


def test_a_point_says_itself_as_it_was_written() -> None:
    for text in ("C8.before:kill:role=tm:hit=3", "C31.after:delay=20:hit=1"):
        assert [str(point) for point in failpoint.parse(text)] == [text]


@pytest.mark.parametrize("text", ["C32.before:kill", "C8.during:kill", "C8.before:sleep", "C8.before:kill:role=worker"])
def test_a_point_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no "):
        failpoint.parse(text)


def test_a_point_fires_at_its_hit_and_only_in_its_role() -> None:
    failpoint.arm(Failpoint("C8.before", "raise", "tm", 3))
    assert pass_points(5) == 0
    failpoint.set_role("tm")
    assert pass_points(2) == 0
    assert pass_points(1) == 1
    assert pass_points(5) == 0


def test_a_hit_is_in_the_log_and_a_restarted_process_does_not_repeat_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "hits.log"
    monkeypatch.setenv("PENSTOCK_FAILPOINT_LOG", str(log))
    failpoint.arm(Failpoint("C8.before", "raise", None, 2))
    assert pass_points(2) == 1
    assert log.read_text(encoding="utf-8").split()[:3] == ["C8.before", "raise", "driver"]
    failpoint.disarm()  # as a new process begins
    failpoint.arm(Failpoint("C8.before", "raise", None, 2), Failpoint("C8.before", "raise", None, 4))
    assert pass_points(4) == 1
    assert len(log.read_text(encoding="utf-8").splitlines()) == 2
