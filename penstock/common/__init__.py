"""The names that programs import from `pyflink.common`, with the same meaning."""

from penstock.model.configuration import Configuration
from penstock.model.encoder import Encoder
from penstock.model.execution import JobStatus
from penstock.model.execution_config import ExecutionConfig
from penstock.model.restart_strategies import RestartStrategies
from penstock.model.row import Row, RowKind
from penstock.model.time import Duration, Instant, Time
from penstock.model.types import TypeInformation, Types
from penstock.model.watermark import TimestampAssigner, WatermarkStrategy

__all__ = [
    "Configuration",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "Instant",
    "JobStatus",
    "RestartStrategies",
    "Row",
    "RowKind",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "Types",
    "WatermarkStrategy",
]
