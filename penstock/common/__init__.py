"""The names that programs import from `pyflink.common`, with the same meaning."""

from penstock.datastream.job_client import CompletableFuture, JobClient
from penstock.model.config_options import ConfigOption, ConfigOptions
from penstock.model.configuration import Configuration
from penstock.model.encoder import Encoder
from penstock.model.execution import JobExecutionResult, JobID, JobStatus
from penstock.model.execution_config import ExecutionConfig
from penstock.model.input_dependency_constraint import InputDependencyConstraint
from penstock.model.restart_strategies import RestartStrategies, RestartStrategyConfiguration
from penstock.model.row import Row, RowKind
from penstock.model.serialization_schemas import (
    ByteArraySchema,
    DeserializationSchema,
    SerializationSchema,
    SimpleStringSchema,
)
from penstock.model.time import Duration, Instant, Time
from penstock.model.type_serializer import TypeSerializer
from penstock.model.types import TypeInformation, Types
from penstock.model.watermark import TimestampAssigner, WatermarkStrategy

__all__ = [
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkStrategy",
]
