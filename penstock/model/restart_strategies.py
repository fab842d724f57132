"""`RestartStrategies`: the way in which PyFlink 1 sets when a failed job is started again."""

from dataclasses import dataclass, field
from typing import Any

from penstock.errors import UsageError
from penstock.model.configuration import Configuration
from penstock.model.option import Option
from penstock.model.options import restart_options
from penstock.model.time import Duration, Time


@dataclass(frozen=True)
class RestartStrategyConfiguration:
    """A restart strategy as settings. One without settings leaves the choice to `-D` and the configuration files."""

    description: str
    settings: dict[str, str] = field(default_factory=dict)

    def get_description(self) -> str:
        """What the strategy does."""
        return self.description

    def record(self, configuration: Configuration) -> None:
        """Replace any strategy in the configuration by this one."""
        for key in [key for key in configuration.key_set() if key.startswith(restart_options.PREFIX)]:
            configuration.remove_config(key)
        for key, value in self.settings.items():
            configuration.set_string(key, value)


class RestartStrategies:
    """Makes the strategies for `env.set_restart_strategy`."""

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        """The first failure ends the job."""
        return _strategy("none", "Restart deactivated.")

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        """The strategy that `-D` or a configuration file sets, or else the default."""
        return RestartStrategyConfiguration("Cluster level default restart strategy")

    @staticmethod
    def fixed_delay_restart(restart_attempts: int, delay_between_attempts: int) -> RestartStrategyConfiguration:
        """Up to `restart_attempts` restarts, each after a pause in milliseconds."""
        delay_ms = _milliseconds(delay_between_attempts)
        return _strategy(
            "fixed-delay",
            f"Restart with fixed delay ({delay_ms} ms). #{restart_attempts} restart attempts.",
            (restart_options.FIXED_DELAY_ATTEMPTS, _count(restart_attempts)),
            (restart_options.FIXED_DELAY, delay_ms),
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int, delay_interval: int
    ) -> RestartStrategyConfiguration:
        """Restarts as long as there are at most `failure_rate` failures in an interval in milliseconds."""
        interval_ms, delay_ms = _milliseconds(failure_interval), _milliseconds(delay_interval)
        return _strategy(
            "failure-rate",
            f"Failure rate restart with maximum of {failure_rate} failures within interval {interval_ms} ms "
            f"and fixed delay {delay_ms} ms.",
            (restart_options.MAX_FAILURES, _count(failure_rate)),
            (restart_options.FAILURE_INTERVAL, interval_ms),
            (restart_options.FAILURE_DELAY, delay_ms),
        )

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: int,
        max_backoff: int,
        backoff_multiplier: float,
        reset_backoff_threshold: int,
        jitter_factor: float,
    ) -> RestartStrategyConfiguration:
        """Restarts after a pause in milliseconds that grows with each failure."""
        return _strategy(
            "exponential-delay",
            f"Restart with exponential delay: starting at {initial_backoff} ms, increasing by {backoff_multiplier}, "
            f"with maximum {max_backoff} ms.",
            (restart_options.INITIAL_BACKOFF, _milliseconds(initial_backoff)),
            (restart_options.MAX_BACKOFF, _milliseconds(max_backoff)),
            (restart_options.BACKOFF_MULTIPLIER, float(backoff_multiplier)),
            (restart_options.RESET_THRESHOLD, _milliseconds(reset_backoff_threshold)),
            (restart_options.JITTER_FACTOR, float(jitter_factor)),
        )


def _strategy(kind: str, description: str, *settings: tuple[Option[Any], Any]) -> RestartStrategyConfiguration:
    chosen: tuple[Option[Any], Any] = (restart_options.STRATEGY, kind)
    texts = {option.key: option.type.format(value) for option, value in (chosen, *settings)}
    return RestartStrategyConfiguration(description, texts)


def _milliseconds(value: Any) -> int:
    if isinstance(value, (Duration, Time)):
        return value.to_milliseconds()
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"{value!r} is not a number of milliseconds; give a whole number, 0 or more")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"{value!r} is not a number of attempts; give a whole number, 0 or more")
    return value
