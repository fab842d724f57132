"""When the first task of an epoch's Spark job began, as far as Spark tells: for figures that people watch."""

from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from penstock.clock import Clock

LOOK_INTERVAL_S = 1.0
"""Asking Spark takes some milliseconds; short epochs in between are taken to be like the last one."""


class FirstTask:
    """Asks Spark's status store about the newest job. One thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked_s: float | None = None
        self._lag_ms: int | None = None
        """From the start of the epoch's run to its first task, in the epoch that was looked at last."""

    def began_ms(self, session: SparkSession, started_ms: int) -> int | None:
        """Of an epoch whose Spark job has just ended and whose run began at `started_ms`; None if it is not known."""
        now_s = self._clock.monotonic_s()
        if self._looked_s is None or now_s - self._looked_s >= LOOK_INTERVAL_S:
            self._looked_s = now_s
            found = newest_job_began_ms(session)
            if found is not None and found >= started_ms:
                self._lag_ms = found - started_ms
        return None if self._lag_ms is None else started_ms + self._lag_ms


def newest_job_began_ms(session: SparkSession) -> int | None:
    """When the first task of Spark's newest job was launched; None if its status store does not know."""
    with suppress(Py4JError):  # these classes of Spark are not public: without them the figure is missing
        context: Any = session.sparkContext._jsc.sc()
        store, newest = context.statusStore(), int(str(context.dagScheduler().nextJobId())) - 1
        stages = store.job(newest).stageIds()
        launched = [
            store.lastStageAttempt(stages.apply(index)).firstTaskLaunchedTime() for index in range(stages.size())
        ]
        return min((int(time.get().getTime()) for time in launched if time.isDefined()), default=None)
    return None
