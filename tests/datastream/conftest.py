"""Programs without Spark: the modules that would touch it are replaced for the test."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest

from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.datastream import StreamExecutionEnvironment, program_settings
from penstock.model.execution import JobStatus
from penstock.model.types import resolve_type


@dataclass(frozen=True)
class FakeFrame:
    """As much of a DataFrame as building a program needs."""

    ddl: str = "customer string, amount double, at timestamp"
    isStreaming: bool = True
    fixed_start: bool = True

    @property
    def schema(self) -> str:
        return self.ddl


@dataclass
class FakeJob:
    """A job that has been submitted: what with, and what it collects."""

    graph: Any
    configuration: Any
    name: str
    spark: Any
    records: list[Any] = field(default_factory=list)
    cancelled: int = 0
    savepoints: list[SavepointRequest] = field(default_factory=list)
    job_id: str = "0123456789abcdef0123456789abcdef"

    def status(self) -> JobStatus:
        return JobStatus.RUNNING

    def cancel(self) -> None:
        self.cancelled += 1

    def trigger_savepoint(self, request: SavepointRequest) -> SavepointRequest:
        request.complete(f"{request.target or 'default'}/savepoint")
        self.savepoints.append(request)
        return request

    def wait(self, timeout: float | None = None) -> str:
        return "result"

    def collected(self, sink_uid: str) -> Iterator[Any]:
        assert sink_uid in [sink.uid for sink in self.graph.sinks]
        return iter(self.records)


class FakeSpark:
    """Stands for a session, and for the modules of the engine below the API."""

    def __init__(self) -> None:
        self.jobs: list[FakeJob] = []
        self.records: list[Any] = []
        self.settings: dict[str, str] = {}
        self.sparkContext = self
        self.defaultParallelism = 6

    def make_session(self, settings: dict[str, str], log_level: str | None = None, **others: Any) -> "FakeSpark":
        self.settings = settings
        return self

    def submit_job(self, graph: Any, configuration: Any, name: str, spark: Any) -> FakeJob:
        self.jobs.append(FakeJob(graph, configuration, name, spark, self.records))
        return self.jobs[-1]

    def run_job(self, graph: Any, configuration: Any, name: str, spark: Any) -> str:
        return self.submit_job(graph, configuration, name, spark).wait()


def apply_sql(frame: FakeFrame, op: tuple[str, ...]) -> FakeFrame:
    if op[0] == "where":
        return frame
    if op[0] == "with_column":
        return FakeFrame(f"{frame.ddl}, {op[1]} bigint")
    columns = dict(column.strip().split(" ", 1) for column in frame.ddl.split(","))
    return FakeFrame(", ".join(f"{name} {columns[name]}" for name in op[1:]))


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> FakeSpark:
    fake = FakeSpark()
    modules: dict[str, dict[str, Any]] = {
        "penstock.spark.dataframe_checks": {
            "describe": lambda df: resolve_type(df.ddl),
            "check_source": lambda df, **options: None,
            "check_static_source": lambda df: None,
            "has_fixed_start": lambda df: df.fixed_start,
        },
        "penstock.spark.source_frames": {"apply_sql": apply_sql},
        "penstock.spark.session": {"make_session": fake.make_session},
        "penstock.spark.warm_up": {"start_warm_up": lambda session: None},
        "penstock.jobmanager.job_submission": {"run_job": fake.run_job, "submit_job": fake.submit_job},
    }
    for name, members in modules.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(program_settings, "prepare_taskmanagers", lambda count: None)
    monkeypatch.chdir(tmp_path)  # no penstock.yaml here
    return fake


@pytest.fixture
def env(spark: FakeSpark) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


@pytest.fixture
def frame() -> FakeFrame:
    return FakeFrame()
