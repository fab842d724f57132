"""A job that a test controls, and a client of its control server."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from starlette.testclient import TestClient

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.checkpoint.stats.checkpoint_report import CheckpointReport, CheckpointTally
from penstock.control.driver_log import DriverLog
from penstock.control.operations import Operations
from penstock.control.registry import JobRecord, RescaleRecord
from penstock.control.running_job import ControlledJob, JobFacts
from penstock.control.server_contract import LOCAL_NAMES
from penstock.control.state_query import StateAnswer, StateQuery
from penstock.control.tokens import Tokens
from penstock.errors import CheckpointFailedError, JobConflictError, RequestRefusedError, UsageError
from penstock.graph.guarantees import FaultTolerance, report_guarantees
from penstock.graph.job_graph import JobGraph, StagePlan
from penstock.jobmanager.restore_check import SourceReport
from penstock.model.ids import SubtaskId
from penstock.model.metric_readings import MetricReading
from penstock.model.recent_epoch import RecentEpoch
from penstock.model.snapshot import StateSize
from penstock.rest.access import Access
from penstock.rest.app import DEFAULT_LIMITS, ControlApp, Limits
from penstock.rest.endpoint import Endpoint
from penstock.runtime.process.messages import LiveState
from penstock.testing.clocks import ManualClock
from tests.records import A_ID, job_record

TOKENS = Tokens("admin-token-of-the-tests", "read-token-of-the-tests")
ADMIN = {"Authorization": f"Bearer {TOKENS.admin}"}
READ = {"Authorization": f"Bearer {TOKENS.read}"}
JOB = f"/jobs/{A_ID}"
STAGE = StagePlan("s0", "Source -> Total", 2, 128, None, (), (), ())
GRAPH = JobGraph((STAGE,), (), (), (), 128, default_parallelism=2)
GUARANTEES = report_guarantees(GRAPH, FaultTolerance())


IDS = {
    "jobid": A_ID,
    "triggerid": "0" * 32,
    "checkpointid": "1",
    "vertexid": "s0",
    "subtaskindex": "0",
    "attempt": "0",
    "taskmanagerid": "tm-1-0-ab",
    "log": "driver.log",
    "operator": "sums",
    "state": "total",
}


def path_of(endpoint: Endpoint) -> str:
    """The path of an endpoint with ids of the fake job in it."""
    return endpoint.path.format(**IDS)


def end_savepoint(request: SavepointRequest, failure: str | None = None) -> None:
    """Answer a savepoint."""
    if failure is not None:
        request.fail(failure)
    else:
        request.complete(f"{request.target}/savepoint-aaaaaa-0123456789ab")


class FakeQueries:
    """The live state of a job: every key holds its own text."""

    def __init__(self) -> None:
        self.known: list[LiveState] = []
        self.known_sizes: list[StateSize] = []
        self.problem: RequestRefusedError | None = None
        self.asked: list[StateQuery] = []

    def states(self) -> list[LiveState]:
        return self.known

    def published(self, name: str) -> list[LiveState]:
        return [state for state in self.known if state.queryable == name]

    def sizes(self) -> list[StateSize]:
        return self.known_sizes

    def read(self, state: LiveState, query: StateQuery) -> StateAnswer:
        if self.problem is not None:
            raise self.problem
        self.asked.append(query)
        if query.limit:
            return StateAnswer([msgspec.Raw(b'["ada",5.0]')], 7, more=True)
        return StateAnswer([msgspec.Raw(key) for key in query.keys], 7)


class FakeJob:
    """A `RunningJob`."""

    def __init__(self, savepoint_dir: str | None = "/savepoints", settings: CheckpointSettings | None = None) -> None:
        self.current = job_record()
        self.settings: CheckpointSettings | None = settings or CheckpointSettings(5000)
        self.savepoint_dir = savepoint_dir
        self.configuration: dict[str, str] = {}
        self.checkpoint_dir: str | None = f"/checkpoints/{A_ID}"
        self.tally = CheckpointTally()
        self.history: Sequence[CheckpointStats] = ()
        self.savepoints: Sequence[CheckpointStats] = ()
        self.requests: dict[str, SavepointRequest] = {}
        self.triggered: list[tuple[str | None, str, str, bool]] = []
        """Target, format, what comes then, and drain of each savepoint."""
        self.cancelled = threading.Event()
        self.taken: list[bool] = []
        self.checkpoint_failure: str | None = None
        self.may_checkpoint = threading.Event()
        self.may_checkpoint.set()
        self.is_rescaling = False
        self.rescaled_to: list[int] = []
        self.readings: list[tuple[SubtaskId, MetricReading]] = []
        self.committed: list[RecentEpoch] = []
        self.queries = FakeQueries()
        self._lock = threading.Lock()

    @property
    def job_id(self) -> str:
        return self.current.job_id

    def record(self) -> JobRecord:
        return self.current

    @property
    def facts(self) -> JobFacts:
        return JobFacts(
            GRAPH,
            self.settings,
            "hashmap",
            self.checkpoint_dir,
            self.savepoint_dir,
            GUARANTEES,
            self.check_restore,
            self.configuration,
        )

    def check_restore(self, graph: JobGraph, path: str) -> SourceReport:
        return SourceReport(path, "restored")

    def metrics(self) -> list[tuple[SubtaskId, MetricReading]]:
        return self.readings

    def epochs(self) -> list[RecentEpoch]:
        return self.committed

    def rates(self) -> list[tuple[int, float]]:
        return [(1000, 5.0)]

    def checkpoints(self) -> CheckpointReport:
        self.tally.note(self.history)
        return self.tally.report(self.history, self.savepoints, frozenset({3}))

    def cancel(self) -> None:
        self.current = job_record(status="CANCELED")
        self.cancelled.set()

    def checkpoint(self, *, full: bool = False) -> int:
        self.may_checkpoint.wait(30)
        if self.checkpoint_failure is not None:
            raise CheckpointFailedError(self.checkpoint_failure)
        self.taken.append(full)
        return 26

    @property
    def graph(self) -> JobGraph:
        return GRAPH

    def request_rescale(self, parallelism: int, why: str = "requested") -> Callable[[], RescaleRecord]:
        if parallelism > GRAPH.max_parallelism:
            raise UsageError(f"parallelism {parallelism} is not between 1 and {GRAPH.max_parallelism}")
        if self.is_rescaling:
            raise JobConflictError("the job is being rescaled to 3; try again when that has ended")
        self.rescaled_to.append(parallelism)
        return lambda: RescaleRecord(2, parallelism, 7, 1530, 0, why)

    def trigger_savepoint(self, request: SavepointRequest) -> SavepointRequest:
        with self._lock:
            if request.trigger_id in self.requests:
                return self.requests[request.trigger_id]
            running = [known.trigger_id for known in self.requests.values() if not known.future.done()]
            if running:
                raise JobConflictError(f"savepoint {running[0]} is being taken")
            request.target = request.target or self.savepoint_dir or ""
            self.triggered.append((request.target, request.format, request.then, request.drain))
            self.requests[request.trigger_id] = request
            return request

    def savepoint_request(self, trigger_id: str) -> SavepointRequest | None:
        return self.requests.get(trigger_id)


class Served:
    """A fake job behind its application; `get` and `post` have the admin token."""

    def __init__(self, folder: Path, job: FakeJob | None = None, limits: Limits = DEFAULT_LIMITS) -> None:
        self.job = job or FakeJob()
        self.clock = ManualClock()
        self.log = folder / "driver.log"
        log = DriverLog(folder, self.job.record().job_id, self.clock)
        self.control = ControlledJob(self.job, self.job.facts, Operations(self.clock), log)
        self.access = Access(TOKENS, frozenset(LOCAL_NAMES))
        self.app = ControlApp(self.control, self.access, limits, self.clock)
        self.client = TestClient(self.app, base_url="http://127.0.0.1:8081", headers=ADMIN)
