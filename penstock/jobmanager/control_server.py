"""The control server of a job, from before its start until after its end.

It listens before the first record of the job gives its address. After the job's end it waits a little for clients that
have not fetched the result of their last request; then it frees the port and removes the tokens.
"""

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.clock import SystemClock
from penstock.control.effective_settings import visible_value
from penstock.control.operations import Operations
from penstock.control.running_job import ControlledJob, JobFacts
from penstock.control.terminal import print_warning
from penstock.control.tokens import Tokens
from penstock.errors import ConfigurationError, StorageError
from penstock.graph.guarantees import GuaranteeReport
from penstock.graph.job_graph import JobGraph
from penstock.jobmanager.job import Job
from penstock.jobmanager.job_request import JobRequest
from penstock.jobmanager.restore_check import ProgramToCheck, RestoreReport, check_restore
from penstock.rest.otel_settings import OtelSettings
from penstock.rest.rest_settings import RestSettings
from penstock.storage.address import join_address

if TYPE_CHECKING:
    from penstock.rest.otel_export import OtelExport
    from penstock.rest.server import ControlServer

LINGER_S = 5.0
"""How long an ended job waits for clients that have not fetched the result of its last savepoint."""


class JobControl:
    """A control server and its tokens. `serve` binds them to a job, and they end with it."""

    def __init__(self, server: "ControlServer", settings: RestSettings, folder: Path) -> None:
        self._server = server
        self._settings = settings
        self._folder = folder
        self._tokens = Tokens.new()
        self._tokens.write(folder)
        self._operations = Operations()
        self._job: Job | None = None
        self._otel: OtelExport | None = None
        self._closed = threading.Event()

    @staticmethod
    def open(settings: RestSettings, folder: Path) -> "JobControl | None":
        """A server that listens; None, with a warning, if it cannot: the job runs all the same."""
        if not settings.enabled:
            return None
        from penstock.rest.server import ControlServer  # a TaskManager needs no HTTP

        try:
            server = ControlServer(settings)
        except OSError as error:
            _warn(f"cannot listen on {settings.host} port {settings.ports.start}: {error}")
            return None
        try:
            return JobControl(server, settings, folder)
        except StorageError as error:
            server.close()
            _warn(str(error))
            return None

    @property
    def address(self) -> str:
        """Where it listens."""
        return self._server.address

    def claimed(self) -> None:
        """The job is this driver's: so are its tokens. One that lost the claim may have written its own meanwhile."""
        with suppress(StorageError):  # a registry that cannot be written must not keep a job from running
            self._tokens.write(self._folder)

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Free the port if there is no job after all."""
        try:
            yield
        except BaseException:
            self._close()
            raise

    def serve(self, job: Job, facts: JobFacts, otel: OtelSettings | None = None) -> None:
        """Answer for this job until it has ended, and send its metrics if `otel` says where to."""
        from penstock.rest.access import Access
        from penstock.rest.app import ControlApp

        self._job = job
        access = Access(self._tokens, self._settings.allowed_hosts, self._settings.scheme)
        control = ControlledJob(job, facts, self._operations, job.log)
        app = ControlApp(control, access)
        self._server.start(app, app.answer_query)
        if otel is not None:
            self._otel = start_export(control, otel)
        threading.Thread(target=self._close_after, args=(job,), name="rest-end", daemon=True).start()
        atexit.register(self._at_exit)

    def _close_after(self, job: Job) -> None:
        job.wait_for_end()
        self._operations.wait_until_seen(LINGER_S)
        self._close()

    def _close(self) -> None:
        if self._otel is not None:
            self._otel.close()
        self._tokens.remove(self._folder)
        self._server.close()
        self._closed.set()
        atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        """The process ends, with the job or before it. Clients can still fetch the results of an ended job."""
        if self._job is not None and self._job.status().is_terminal_state():
            self._closed.wait(2 * LINGER_S)
        self._tokens.remove(self._folder)


def start_export(control: ControlledJob, settings: OtelSettings) -> "OtelExport | None":
    """The export of metrics; None, with a warning, without the packages: the job runs all the same."""
    from penstock.rest.otel_export import OtelExport  # most jobs do not need it

    try:
        export = OtelExport.to_collector(control, SystemClock(), settings)
    except ConfigurationError as error:
        print_warning(f"metrics are not sent to {settings.endpoint}: {error}")
        return None
    export.start()
    return export


def job_facts(request: JobRequest, guarantees: GuaranteeReport) -> JobFacts:
    """What does not change about a job."""
    settings, storage = request.settings, request.settings.storage
    folder = storage.address
    if folder is not None and storage.create_subdir:
        folder = join_address(folder, request.identity.job_id)
    start = replace(request.start, path=None)

    def check(graph: JobGraph, path: str) -> RestoreReport:
        return check_restore(ProgramToCheck(graph, start, settings.backend.kind, settings.job_parameters), path)

    return JobFacts(
        request.graph,
        settings.checkpoints,
        settings.backend.kind,
        folder,
        settings.savepoint_dir,
        guarantees,
        check,
        settings.shown,
        str(settings.restart),
        {key: visible_value(key, value) for key, value in settings.job_parameters.items()},
    )


def _warn(reason: str) -> None:
    print_warning(f"the job has no control server: {reason}; savepoint, stop, cancel and checkpoint do not reach it")
