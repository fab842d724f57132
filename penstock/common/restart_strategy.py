"""The names of `pyflink.common.restart_strategy`."""

from penstock.model.restart_strategies import RestartStrategies, RestartStrategyConfiguration

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]
