"""The names that programs import from `pyflink.common`, with the same meaning."""

from penstock.datastream.job_client import CompletableFuture, JobClient
from penstock.model.configuration import Configuration
from penstock.model.encoder import Encoder
from penstock.model.execution import JobExecutionResult, JobID, JobStatus
from penstock.model.execution_config import ExecutionConfig
from penstock.model.restart_strategies import RestartStrategies, RestartStrategyConfiguration
from penstock.model.row import Row, RowKind
from penstock.model.time import Duration, Instant, Time
from penstock.model.types import TypeInformation, Types
from penstock.model.watermark import TimestampAssigner, WatermarkStrategy

__all__ = [
    "CompletableFuture",
    "Configuration",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "Types",
    "WatermarkStrategy",
]
