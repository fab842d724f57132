"""Which parallelism a job should have, from what was measured. Pure: the caller brings samples and times.

The rule is that of Flink's autoscaler. If the subtasks of an operator are busy for 90 % of the time at parallelism 4,
and should be for 70 %, the operator needs 4 * 0.9 / 0.7 = 5.1 subtasks, so 6. A job that lags uses all it has: it
counts as busy all the time, whatever part of the time Spark takes. Five things keep it from going up and down in turn:
the margin around the target; measurements over a whole stabilization window, which start again after a change; the
longer interval before it goes down; that a change which did not help is not followed by more of the same; and that a
parallelism at which the job could not start is left alone for some time.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.model.configuration import Configuration
from penstock.model.options import autoscale_options as options

LEAST_BUSY = 0.1
"""Of a job that lags: below it the functions are not what holds it up, and more subtasks would not help."""
LEAST_GAIN = 1.1
"""By which factor the rate of a job that lags must have grown with the last step up, if another one is to follow."""
MOSTLY = 0.5
LONGEST_HOLD_S = 24 * 3600.0
"""For which a parallelism at which the job could not start is left alone."""


@dataclass(frozen=True)
class ScalingBounds:
    """What the user has asked for."""

    least: int
    most: int
    target: float
    margin: float
    window_s: float
    down_interval_s: float

    @staticmethod
    def of(configuration: Configuration, cores: int, max_parallelism: int) -> "ScalingBounds":
        """The settings in a configuration, on a Spark with so many cores."""
        most = min(configuration.get(options.AUTOSCALE_MAX) or cores, max_parallelism)
        return ScalingBounds(
            least=min(configuration.get(options.AUTOSCALE_MIN), most),
            most=most,
            target=configuration.get(options.AUTOSCALE_TARGET),
            margin=configuration.get(options.AUTOSCALE_MARGIN),
            window_s=configuration.get(options.AUTOSCALE_STABILIZATION) / 1000,
            down_interval_s=configuration.get(options.AUTOSCALE_DOWN_INTERVAL) / 1000,
        )


@dataclass(frozen=True)
class LoadSample:
    """How busy a running job is at one moment."""

    at_s: float
    """On a monotonic clock."""
    parallelism: int
    busy: float
    """Of the busiest operator that can be rescaled, the mean over its subtasks; between 0 and 1."""
    lags: bool
    """More input waits than the job can read."""
    rows_per_s: float


@dataclass(frozen=True)
class LastStep:
    """The last change of the parallelism."""

    at_s: float
    lagging_rate: float | None = None
    """Rows per second before it, if it was a step up of a job that lagged."""


@dataclass(frozen=True)
class ScalingDecision:
    """A change of the parallelism."""

    before: int
    after: int
    why: str
    lagging_rate: float | None = None


def decide(samples: Sequence[LoadSample], bounds: ScalingBounds, last: LastStep) -> ScalingDecision | None:
    """The change to make now, if any. `samples`: of one parallelism, oldest first, all since the last change."""
    if not samples or samples[-1].at_s - samples[0].at_s < bounds.window_s:
        return None
    now_s, parallelism = samples[-1].at_s, samples[-1].parallelism
    if now_s - last.at_s < bounds.window_s:
        return None
    busy = sum(sample.busy for sample in samples) / len(samples)
    rate = sum(sample.rows_per_s for sample in samples) / len(samples)
    lagging = sum(sample.lags for sample in samples) / len(samples)
    lags = lagging > MOSTLY and busy >= LEAST_BUSY
    share = 1.0 if lags else busy
    wanted = min(bounds.most, max(bounds.least, math.ceil(parallelism * share / bounds.target - 1e-9)))
    reason = f"busy {busy:.0%}, wanted {bounds.target:.0%}" + (", and the job lags" if lags else "")
    if parallelism < bounds.least or parallelism > bounds.most:
        return ScalingDecision(parallelism, wanted, f"{parallelism} is not within {bounds.least} to {bounds.most}")
    if wanted > parallelism and share > min(1.0, bounds.target + bounds.margin) - 1e-9:
        did_not_help = lags and last.lagging_rate is not None and rate < last.lagging_rate * LEAST_GAIN
        return None if did_not_help else ScalingDecision(parallelism, wanted, reason, rate if lags else None)
    may_go_down = now_s - last.at_s >= bounds.down_interval_s and not lagging
    if wanted < parallelism and busy < bounds.target - bounds.margin and may_go_down:
        return ScalingDecision(parallelism, wanted, reason)
    return None


class LoadWindow:
    """The samples of the last stabilization window. Not thread safe."""

    def __init__(self, bounds: ScalingBounds, now_s: float) -> None:
        self._bounds = bounds
        self._last = LastStep(now_s)
        self._samples: deque[LoadSample] = deque()
        self._parallelism: int | None = None
        """Of the last sample; None until there is one since the last change."""
        self._failed: ScalingDecision | None = None
        """The last change that the job could not start at, until it runs at that parallelism."""
        self._hold_s = 0.0
        self._hold_until_s = 0.0

    def add(self, sample: LoadSample) -> ScalingDecision | None:
        """Take a sample; the change to make now, if any."""
        if self._parallelism not in (None, sample.parallelism):
            self.begin(sample.at_s)  # somebody else has rescaled the job, perhaps during an interruption
        self._parallelism = sample.parallelism
        self._samples.append(sample)
        while len(self._samples) > 1 and sample.at_s - self._samples[1].at_s >= self._bounds.window_s:
            self._samples.popleft()
        if self._failed is not None and _reaches(sample.parallelism, self._failed):
            self._failed = None  # somebody else has made it run there
        decision = decide(self._samples, self._bounds, self._last)
        is_held = self._failed is not None and decision is not None and _reaches(decision.after, self._failed)
        return None if is_held and sample.at_s < self._hold_until_s else decision

    def begin(self, now_s: float, lagging_rate: float | None = None) -> None:
        """The job runs at another parallelism from now on: what was measured before says nothing about it."""
        self._samples.clear()
        self._parallelism = None
        self._last = LastStep(now_s, lagging_rate)

    def failed(self, decision: ScalingDecision, now_s: float) -> None:
        """The job could not start at this parallelism, and runs on at the old one. It is tried again after the interval
        before a step down, and twice as long after each further failure.
        """
        is_first = self._failed is None
        self._hold_s = self._bounds.down_interval_s if is_first else min(LONGEST_HOLD_S, 2 * self._hold_s)
        self._failed, self._hold_until_s = decision, now_s + self._hold_s
        self.interrupt()

    def interrupt(self) -> None:
        """The job does not run at this moment: a restart is no time to measure."""
        self._samples.clear()


def _reaches(parallelism: int, step: ScalingDecision) -> bool:
    """Whether a parallelism is the one after the step, or lies beyond it."""
    return parallelism >= step.after if step.after > step.before else parallelism <= step.after
