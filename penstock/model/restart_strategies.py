"""`RestartStrategies`: the way in which PyFlink 1 sets when a failed job is started again."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from penstock.errors import UsageError
from penstock.model.configuration import Configuration
from penstock.model.option import Option
from penstock.model.options import restart_options
from penstock.model.time import Duration, Time, TimeSpan, milliseconds


@dataclass(frozen=True)
class RestartStrategyConfiguration:
    """A restart strategy as settings. One without settings leaves the choice to `-D` and the configuration files."""

    description: str
    settings: dict[str, str] = field(default_factory=dict)

    def get_description(self) -> str:
        """What the strategy does."""
        return self.description

    def _value(self, option: Option[Any]) -> Any:
        return option.type.parse(self.settings[option.key])

    def record(self, configuration: Configuration) -> None:
        """Replace any strategy in the configuration by this one."""
        for key in [key for key in configuration.key_set() if key.startswith(restart_options.PREFIX)]:
            configuration.remove_config(key)
        for key, value in self.settings.items():
            configuration.set_string(key, value)


class RestartStrategies:
    """Makes the strategies for `env.set_restart_strategy`."""

    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The first failure ends the job."""

        def __init__(self) -> None:
            super().__init__("Restart deactivated.", _settings("none"))

    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A limited number of restarts, each after the same pause."""

        def __init__(self, restart_attempts: int, delay_between_attempts_interval: TimeSpan) -> None:
            delay_ms = _milliseconds(delay_between_attempts_interval)
            super().__init__(
                f"Restart with fixed delay ({delay_ms} ms). #{restart_attempts} restart attempts.",
                _settings(
                    "fixed-delay",
                    (restart_options.FIXED_DELAY_ATTEMPTS, _count(restart_attempts)),
                    (restart_options.FIXED_DELAY, delay_ms),
                ),
            )

        def get_restart_attempts(self) -> int:
            """How often the job is started again."""
            return int(self._value(restart_options.FIXED_DELAY_ATTEMPTS))

        def get_delay_between_attempts_interval(self) -> timedelta:
            """The pause before each restart."""
            return timedelta(milliseconds=self._value(restart_options.FIXED_DELAY))

    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restarts as long as there are not too many failures in an interval."""

        def __init__(
            self, max_failure_rate: int, failure_interval: TimeSpan, delay_between_attempts_interval: TimeSpan
        ) -> None:
            interval_ms, delay_ms = _milliseconds(failure_interval), _milliseconds(delay_between_attempts_interval)
            super().__init__(
                f"Failure rate restart with maximum of {max_failure_rate} failures within interval {interval_ms} ms "
                f"and fixed delay {delay_ms} ms.",
                _settings(
                    "failure-rate",
                    (restart_options.MAX_FAILURES, _count(max_failure_rate)),
                    (restart_options.FAILURE_INTERVAL, interval_ms),
                    (restart_options.FAILURE_DELAY, delay_ms),
                ),
            )

        def get_max_failure_rate(self) -> int:
            """How many failures of an interval lead to a restart."""
            return int(self._value(restart_options.MAX_FAILURES))

        def get_failure_interval(self) -> timedelta:
            """The interval in which failures are counted."""
            return timedelta(milliseconds=self._value(restart_options.FAILURE_INTERVAL))

        def get_delay_between_attempts_interval(self) -> timedelta:
            """The pause before each restart."""
            return timedelta(milliseconds=self._value(restart_options.FAILURE_DELAY))

    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The strategy that `-D` or a configuration file sets, or else the default."""

        def __init__(self) -> None:
            super().__init__("Cluster level default restart strategy")

    @staticmethod
    def no_restart() -> NoRestartStrategyConfiguration:
        """The first failure ends the job."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> FallbackRestartStrategyConfiguration:
        """The strategy that `-D` or a configuration file sets, or else the default."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: TimeSpan
    ) -> FixedDelayRestartStrategyConfiguration:
        """Up to `restart_attempts` restarts, each after a pause: milliseconds, a Duration or a timedelta."""
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(restart_attempts, delay_between_attempts)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: TimeSpan, delay_interval: TimeSpan
    ) -> FailureRateRestartStrategyConfiguration:
        """Restarts as long as there are at most `failure_rate` failures in an interval."""
        return RestartStrategies.FailureRateRestartStrategyConfiguration(failure_rate, failure_interval, delay_interval)

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: int,
        max_backoff: int,
        backoff_multiplier: float,
        reset_backoff_threshold: int,
        jitter_factor: float,
    ) -> RestartStrategyConfiguration:
        """Restarts after a pause in milliseconds that grows with each failure."""
        settings = _settings(
            "exponential-delay",
            (restart_options.INITIAL_BACKOFF, _milliseconds(initial_backoff)),
            (restart_options.MAX_BACKOFF, _milliseconds(max_backoff)),
            (restart_options.BACKOFF_MULTIPLIER, float(backoff_multiplier)),
            (restart_options.RESET_THRESHOLD, _milliseconds(reset_backoff_threshold)),
            (restart_options.JITTER_FACTOR, float(jitter_factor)),
        )
        return RestartStrategyConfiguration(
            f"Restart with exponential delay: starting at {initial_backoff} ms, increasing by {backoff_multiplier}, "
            f"with maximum {max_backoff} ms.",
            settings,
        )


def _settings(kind: str, *settings: tuple[Option[Any], Any]) -> dict[str, str]:
    chosen: tuple[Option[Any], Any] = (restart_options.STRATEGY, kind)
    return {option.key: option.type.format(value) for option, value in (chosen, *settings)}


def _milliseconds(value: Any) -> int:
    if isinstance(value, Duration | Time | timedelta):
        return milliseconds(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"{value!r} is not a number of milliseconds; give a whole number, 0 or more")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"{value!r} is not a number of attempts; give a whole number, 0 or more")
    return value
