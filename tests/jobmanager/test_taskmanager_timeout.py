"""A TaskManager that is silent for `penstock.taskmanager.timeout` is lost, and not before."""

import threading
from typing import Any

from penstock.errors import PenstockError, TaskManagerLostError
from penstock.jobmanager.attempt import taskmanagers
from penstock.jobmanager.attempt.taskmanagers import AttemptEvents, TaskManagers
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.model.configuration import Configuration
from penstock.runtime.process.messages import Heartbeat, Hello
from penstock.testing.clocks import ManualClock
from tests.waiting import wait_until


def test_the_timeout_is_20_seconds_unless_it_is_set() -> None:
    assert JobSettings.of("job", Configuration()).taskmanager_timeout_ms == 20_000
    given = Configuration.from_dict({"penstock.taskmanager.timeout": "5 s"})
    assert JobSettings.of("job", given).taskmanager_timeout_ms == 5000


def test_silence_up_to_the_timeout_is_no_loss(monkeypatch: Any) -> None:
    monkeypatch.setattr(taskmanagers, "CHECK_S", 0.001)
    clock, failures = ManualClock(0), list[PenstockError]()
    looked = threading.Event()

    class Watched(ManualClock):
        def monotonic_s(self) -> float:
            looked.set()
            return clock.monotonic_s()

    ours = TaskManagers("127.0.0.1", Hello("token", 1, "jobmanager"), Watched(0), silence_limit_s=5.0)
    ours.listen(AttemptEvents(ignore, ignore, ignore, failures.append, ignore))
    try:
        ours._handle("tm-1", Heartbeat("tm-1"))
        clock.advance(5000)
        for _ in range(2):  # the second look began behind the advance
            looked.clear()
            assert looked.wait(10)
        assert not failures
        clock.advance(1000)
        wait_until(lambda: failures)
        assert isinstance(failures[0], TaskManagerLostError) and "no heartbeat for 6 s" in str(failures[0])
    finally:
        ours.close("the test is over", job_ended=True)


def ignore(message: Any) -> None:
    pass
