"""When and how often a failed job starts again (features P1 to P5). Arithmetic on an injected clock, nothing else."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from penstock.clock import Clock
from penstock.errors import ConfigurationError
from penstock.jobmanager.settings.checkpointing import duration_ms
from penstock.model.configuration import Configuration

_KEY = "restart-strategy."
INFINITE = 2**31 - 1


@dataclass(frozen=True)
class NoRestart:
    """The first failure ends the job."""


@dataclass(frozen=True)
class FixedDelay:
    """So many restarts, with the same pause before each."""

    attempts: int = 1
    delay_ms: int = 1000


@dataclass(frozen=True)
class FailureRate:
    """As long as no more than so many failures lie in the interval."""

    max_failures: int = 1
    interval_ms: int = 60_000
    delay_ms: int = 1000


@dataclass(frozen=True)
class ExponentialDelay:
    """A pause that grows with each failure, and is the first one again after a time without any."""

    initial_ms: int = 1000
    max_ms: int = 60_000
    multiplier: float = 1.5
    reset_ms: int = 3_600_000
    jitter: float = 0.1
    attempts: int = INFINITE
    """Restarts before the job fails, unless such a time came between."""

    def __post_init__(self) -> None:
        if not self.initial_ms >= 1 or not self.max_ms >= self.initial_ms or not self.multiplier > 1:
            raise ConfigurationError(
                f"restart-strategy.exponential-delay: the first pause is {self.initial_ms} ms, the longest "
                f"{self.max_ms} ms, the multiplier {self.multiplier}; the first must be 1 ms or more and no longer "
                f"than the longest, and the multiplier more than 1"
            )
        if not 0 <= self.jitter <= 1:
            raise ConfigurationError(
                f"restart-strategy.exponential-delay.jitter-factor is {self.jitter}; give a number between 0 and 1"
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
    """The strategy in a configuration; without one, by whether there are checkpoints to go on from."""
    kind = configuration.get_string(_KEY + "type", "exponential-delay" if checkpointing else "none")
    match kind.strip().lower().replace("_", "-"):
        case "none" | "off" | "disable":
            return NoRestart()
        case "fixed-delay" | "fixeddelay":
            return FixedDelay(
                _number(configuration, "fixed-delay.attempts", 1), _time(configuration, "fixed-delay.delay", 1000)
            )
        case "failure-rate" | "failurerate":
            return FailureRate(
                _number(configuration, "failure-rate.max-failures-per-interval", 1),
                _time(configuration, "failure-rate.failure-rate-interval", 60_000),
                _time(configuration, "failure-rate.delay", 1000),
            )
        case "exponential-delay" | "exponentialdelay":
            return _exponential(configuration)
    raise ConfigurationError(
        f"restart-strategy.type is {kind!r}; choose 'none', 'fixed-delay', 'failure-rate' or 'exponential-delay'"
    )


def _exponential(configuration: Configuration) -> ExponentialDelay:
    key, default = "exponential-delay.", ExponentialDelay
    return ExponentialDelay(
        initial_ms=_time(configuration, key + "initial-backoff", default.initial_ms),
        max_ms=_time(configuration, key + "max-backoff", default.max_ms),
        multiplier=configuration.get_float(_KEY + key + "backoff-multiplier", default.multiplier),
        reset_ms=_time(configuration, key + "reset-backoff-threshold", default.reset_ms),
        jitter=configuration.get_float(_KEY + key + "jitter-factor", default.jitter),
        attempts=_number(configuration, key + "attempts-before-reset-backoff", default.attempts),
    )


def _number(configuration: Configuration, name: str, default: int) -> int:
    text = configuration.get_string(_KEY + name, str(default)).strip().lower()
    if text in ("infinite", "inf"):
        return INFINITE
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise ConfigurationError(f"{_KEY}{name} is {text!r}; give a number, 0 or more")
    return number


def _time(configuration: Configuration, name: str, default: int) -> int:
    found = duration_ms(configuration, _KEY + name)
    return default if found is None else found
