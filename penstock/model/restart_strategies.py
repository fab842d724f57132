"""`RestartStrategies`: how PyFlink 1 says when a failed job is started again (features P1 to P5)."""

from dataclasses import dataclass, field
from typing import Any

from penstock.errors import UsageError
from penstock.model.configuration import Configuration
from penstock.model.time import Duration, Time

PREFIX = "restart-strategy."


@dataclass(frozen=True)
class RestartStrategyConfiguration:
    """A strategy as settings. Without any, what was configured outside the program holds."""

    description: str
    settings: dict[str, str] = field(default_factory=dict)

    def get_description(self) -> str:
        """What the strategy does."""
        return self.description

    def record(self, configuration: Configuration) -> None:
        """Put the strategy in the place of any other that the program has set."""
        for key in [key for key in configuration.key_set() if key.startswith(PREFIX)]:
            configuration.remove_config(key)
        for key, value in self.settings.items():
            configuration.set_string(PREFIX + key, value)


class RestartStrategies:
    """Makes the strategies for `env.set_restart_strategy`."""

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        """The first failure ends the job."""
        return RestartStrategyConfiguration("Restart deactivated.", {"type": "none"})

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        """What `-D` or `penstock.yaml` say; else the default."""
        return RestartStrategyConfiguration("Cluster level default restart strategy")

    @staticmethod
    def fixed_delay_restart(restart_attempts: int, delay_between_attempts: int) -> RestartStrategyConfiguration:
        """So many restarts, with a pause of so many milliseconds before each."""
        delay_ms = _milliseconds(delay_between_attempts)
        return RestartStrategyConfiguration(
            f"Restart with fixed delay ({delay_ms} ms). #{restart_attempts} restart attempts.",
            {
                "type": "fixed-delay",
                "fixed-delay.attempts": str(_count(restart_attempts)),
                "fixed-delay.delay": f"{delay_ms} ms",
            },
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int, delay_interval: int
    ) -> RestartStrategyConfiguration:
        """As long as no more than so many failures lie in an interval of so many milliseconds."""
        interval_ms, delay_ms = _milliseconds(failure_interval), _milliseconds(delay_interval)
        return RestartStrategyConfiguration(
            f"Failure rate restart with maximum of {failure_rate} failures within interval {interval_ms} ms "
            f"and fixed delay {delay_ms} ms.",
            {
                "type": "failure-rate",
                "failure-rate.max-failures-per-interval": str(_count(failure_rate)),
                "failure-rate.failure-rate-interval": f"{interval_ms} ms",
                "failure-rate.delay": f"{delay_ms} ms",
            },
        )

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: int,
        max_backoff: int,
        backoff_multiplier: float,
        reset_backoff_threshold: int,
        jitter_factor: float,
    ) -> RestartStrategyConfiguration:
        """A pause that grows with each failure, between two lengths in milliseconds."""
        return RestartStrategyConfiguration(
            f"Restart with exponential delay: starting at {initial_backoff} ms, increasing by {backoff_multiplier}, "
            f"with maximum {max_backoff} ms.",
            {
                "type": "exponential-delay",
                "exponential-delay.initial-backoff": f"{_milliseconds(initial_backoff)} ms",
                "exponential-delay.max-backoff": f"{_milliseconds(max_backoff)} ms",
                "exponential-delay.backoff-multiplier": str(float(backoff_multiplier)),
                "exponential-delay.reset-backoff-threshold": f"{_milliseconds(reset_backoff_threshold)} ms",
                "exponential-delay.jitter-factor": str(float(jitter_factor)),
            },
        )


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
