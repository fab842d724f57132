"""When and how often a failed job is started again: arithmetic on an injected clock, nothing else."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from penstock.clock import Clock
from penstock.errors import (
    CheckpointError,
    ConfigurationError,
    ConnectorRefusedError,
    InvalidKeyError,
    OutputIncompleteError,
    PenstockError,
    RecordsLostError,
    SinkTransactionLostError,
    SourceFileLostError,
)
from penstock.model.configuration import Configuration
from penstock.model.options import restart_options


@dataclass(frozen=True)
class NoRestart:
    """The first failure ends the job."""


@dataclass(frozen=True)
class FixedDelay:
    """A limited number of restarts, with the same pause before each."""

    attempts: int = restart_options.FIXED_DELAY_ATTEMPTS.default
    delay_ms: int = restart_options.FIXED_DELAY.default


@dataclass(frozen=True)
class FailureRate:
    """Restarts as long as there are at most `max_failures` failures in the interval."""

    max_failures: int = restart_options.MAX_FAILURES.default
    interval_ms: int = restart_options.FAILURE_INTERVAL.default
    delay_ms: int = restart_options.FAILURE_DELAY.default


@dataclass(frozen=True)
class ExponentialDelay:
    """A pause that grows with each failure, and starts from the beginning after some time without a failure."""

    initial_ms: int = restart_options.INITIAL_BACKOFF.default
    max_ms: int = restart_options.MAX_BACKOFF.default
    multiplier: float = restart_options.BACKOFF_MULTIPLIER.default
    reset_ms: int = restart_options.RESET_THRESHOLD.default
    jitter: float = restart_options.JITTER_FACTOR.default
    attempts: int = restart_options.EXPONENTIAL_ATTEMPTS.default
    """Restarts before the job fails, unless the pause was reset in between."""

    def __post_init__(self) -> None:
        if not self.initial_ms >= 1 or not self.max_ms >= self.initial_ms or not self.multiplier > 1:
            raise ConfigurationError(
                f"restart strategy exponential-delay: the first pause is {self.initial_ms} ms, the longest "
                f"{self.max_ms} ms, the multiplier {self.multiplier}; the first must be 1 ms or more and no longer "
                f"than the longest, and the multiplier more than 1"
            )
        if not 0 <= self.jitter <= 1:
            raise ConfigurationError(
                f"{restart_options.JITTER_FACTOR.key} is {self.jitter}; give a number between 0 and 1"
            )


RestartStrategy = NoRestart | FixedDelay | FailureRate | ExponentialDelay


class Restarts:
    """The failures of one job under its strategy."""

    def __init__(self, strategy: RestartStrategy, clock: Clock, jitter: Callable[[], float]) -> None:
        """`jitter` gives numbers between -1 and 1: how much of the random part of a pause is added."""
        self._strategy = strategy
        self._clock = clock
        self._jitter = jitter
        self._count = 0
        self._failed_at: deque[int] = deque()
        self._pause_ms = 0.0
        self._running_since_ms = 0
        """When the job was last to run again."""

    def after_failure(self) -> float | None:
        """How many seconds to wait before the job starts again; None: it has failed for good."""
        match self._strategy:
            case NoRestart():
                return None
            case FixedDelay() as strategy:
                self._count += 1
                return strategy.delay_ms / 1000 if self._count <= strategy.attempts else None
            case FailureRate() as strategy:
                return self._by_rate(strategy)
            case ExponentialDelay() as strategy:
                return self._by_exponent(strategy)

    def _by_rate(self, strategy: FailureRate) -> float | None:
        now_ms = round(self._clock.monotonic_s() * 1000)
        self._failed_at.append(now_ms)
        while now_ms - self._failed_at[0] > strategy.interval_ms:
            self._failed_at.popleft()
        return strategy.delay_ms / 1000 if len(self._failed_at) <= strategy.max_failures else None

    def _by_exponent(self, strategy: ExponentialDelay) -> float | None:
        now_ms = round(self._clock.monotonic_s() * 1000)
        if self._count == 0 or now_ms - self._running_since_ms >= strategy.reset_ms:
            self._count, self._pause_ms = 0, strategy.initial_ms
        else:
            self._pause_ms = min(self._pause_ms * strategy.multiplier, strategy.max_ms)
        self._count += 1
        if self._count > strategy.attempts:
            return None
        pause_ms = self._pause_ms + self._pause_ms * strategy.jitter * self._jitter()
        pause_ms = min(pause_ms, strategy.max_ms)
        self._running_since_ms = now_ms + round(pause_ms)
        return pause_ms / 1000


def restart_strategy(configuration: Configuration, *, checkpointing: bool) -> RestartStrategy:
    """The strategy in a configuration. The default depends on whether the job has checkpoints to restart from."""
    kind = configuration.get(restart_options.STRATEGY) or ("exponential-delay" if checkpointing else "none")
    if kind == "none":
        return NoRestart()
    if kind == "fixed-delay":
        return FixedDelay(
            configuration.get(restart_options.FIXED_DELAY_ATTEMPTS), configuration.get(restart_options.FIXED_DELAY)
        )
    if kind == "failure-rate":
        return FailureRate(
            configuration.get(restart_options.MAX_FAILURES),
            configuration.get(restart_options.FAILURE_INTERVAL),
            configuration.get(restart_options.FAILURE_DELAY),
        )
    return ExponentialDelay(
        initial_ms=configuration.get(restart_options.INITIAL_BACKOFF),
        max_ms=configuration.get(restart_options.MAX_BACKOFF),
        multiplier=configuration.get(restart_options.BACKOFF_MULTIPLIER),
        reset_ms=configuration.get(restart_options.RESET_THRESHOLD),
        jitter=configuration.get(restart_options.JITTER_FACTOR),
        attempts=configuration.get(restart_options.EXPONENTIAL_ATTEMPTS),
    )


def is_final(error: PenstockError) -> bool:
    """Whether retrying cannot help: output or input is lost (PROTOCOL R21), a key is null, nothing can be restored
    (R24), or a broker or database refuses for good.
    """
    is_refusal = isinstance(error, CheckpointError) and not error.retryable
    lost = SinkTransactionLostError | SourceFileLostError | RecordsLostError
    finals = lost | OutputIncompleteError | InvalidKeyError | ConnectorRefusedError
    return isinstance(error, finals) or is_refusal
