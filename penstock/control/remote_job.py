"""A job in another process, controlled through its control server.

Without an answer, the outcome of a request is unknown: a request that may have reached the job is never repeated
automatically. The client chooses the ids of operations, so that a repeated request is the same operation.
"""

import ipaddress
import re
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Literal, TypeVar

import httpx
import msgspec

from penstock.control.driver_log import printable
from penstock.control.registry import JobRecord, Registry, RescaleRecord
from penstock.control.server_contract import LOCAL_NAMES, NO_LOCATION
from penstock.control.tokens import ADMIN_FILE, Scope, read_token
from penstock.errors import JobConflictError, JobError, JobNotFoundError, NotReachableError, PenstockError, UsageError

TIMEOUT_S = 30.0
MAX_PORT = 65_535
OperationKind = Literal["savepoints", "checkpoints", "rescaling"]
_SERVER = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})/?")
_ERRORS: dict[int, type[PenstockError]] = {
    400: UsageError,
    404: JobNotFoundError,
    409: JobConflictError,
    413: UsageError,
    415: UsageError,
    **dict.fromkeys((401, 403, 408, 421, 431), NotReachableError),
}


@dataclass(frozen=True)
class ServerAddress:
    """A control server and the token for it. The repr does not show the token."""

    url: str
    token: str = field(repr=False)

    @property
    def sends_token_in_clear(self) -> bool:
        """Whether the token would cross a network without TLS."""
        found = _SERVER.fullmatch(self.url)
        return found is not None and found[1] == "http" and found[2] not in LOCAL_NAMES


class _Overview(msgspec.Struct):
    """The fields of an overview that are used here."""

    jid: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    name: str
    state: str
    start_time: Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999)] = msgspec.field(name="start-time")


class _LoginCode(msgspec.Struct):
    code: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{20,100}$")]


class _Status(msgspec.Struct):
    status: str


class _Stage(msgspec.Struct):
    id: str


class _Failure(msgspec.Struct):
    text: str = msgspec.field(name="stack-trace")


class _Outcome(msgspec.Struct):
    location: str | None = None
    checkpoint_id: int | None = msgspec.field(default=None, name="checkpointId")
    failure: _Failure | None = msgspec.field(default=None, name="failure-cause")
    before: int | None = msgspec.field(default=None, name="from")
    after: int | None = msgspec.field(default=None, name="to")
    pause_ms: int = msgspec.field(default=0, name="pause-ms")
    checkpoint_failure: _Failure | None = msgspec.field(default=None, name="failureCause")


class _Progress(msgspec.Struct):
    status: _Stage
    progress: int = 0
    operation: _Outcome = msgspec.field(default_factory=_Outcome)


Answer = TypeVar("Answer")


@dataclass(frozen=True)
class OperationState:
    """The progress of an operation, or its result."""

    is_ended: bool
    percent: int = 0
    result: Any = None
    """The path of a savepoint, the number of a checkpoint, or a RescaleRecord."""
    failure: str | None = None


class RemoteJob:
    """A job behind a control server. Use it in a `with` statement."""

    def __init__(self, job_id: str, server: ServerAddress, timeout_s: float = TIMEOUT_S) -> None:
        self.job_id = job_id
        self.server = server
        self._url = server.url.rstrip("/")
        verify: ssl.SSLContext | bool = ssl.create_default_context() if self._url.startswith("https") else False
        # No proxy, no netrc: the token is sent to the server only.
        self._client = httpx.Client(
            base_url=self._url,
            headers={"Authorization": f"Bearer {server.token}"},
            timeout=timeout_s,
            trust_env=False,
            verify=verify,
        )

    def __enter__(self) -> "RemoteJob":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def overview(self) -> list[dict[str, Any]]:
        """The jobs of the server."""
        jobs: list[dict[str, Any]] = self.request("GET", "/jobs/overview").get("jobs", [])
        self._read(jobs, list[_Overview])
        return jobs

    def status(self) -> str:
        """The status of the job."""
        return self._read(self.request("GET", f"/jobs/{self.job_id}/status"), _Status).status

    def page_link(self, scope: Scope) -> str:
        """A link that opens the job's page once, within a minute."""
        found = self._read(self.request("POST", "/login-codes", {"scope": scope}), _LoginCode)
        return f"{self._url}/login/{found.code}"

    def cancel(self) -> None:
        """Cancel the job; JobConflictError if it has ended."""
        self.request("PATCH", f"/jobs/{self.job_id}?mode=cancel")

    def take_savepoint(self, trigger_id: str, target: str | None, format: str, *, cancel: bool = False) -> None:
        """Start a savepoint."""
        body = {"target-directory": target, "formatType": format.upper(), "triggerId": trigger_id, "cancel-job": cancel}
        self.request("POST", f"/jobs/{self.job_id}/savepoints", body)

    def stop(self, trigger_id: str, target: str | None, format: str, *, drain: bool = False) -> None:
        """Start to stop the job with a savepoint."""
        body = {"targetDirectory": target, "formatType": format.upper(), "triggerId": trigger_id, "drain": drain}
        self.request("POST", f"/jobs/{self.job_id}/stop", body)

    def take_checkpoint(self, trigger_id: str, *, full: bool) -> None:
        """Start a checkpoint."""
        body = {"checkpointType": "FULL" if full else "CONFIGURED", "triggerId": trigger_id}
        self.request("POST", f"/jobs/{self.job_id}/checkpoints", body)

    def rescale(self, trigger_id: str, parallelism: int) -> None:
        """Start to bring the job to another parallelism."""
        path = f"/jobs/{self.job_id}/rescaling?parallelism={parallelism}"
        self.request("PATCH", path, {"triggerId": trigger_id})

    def state_of(self, kind: OperationKind, trigger_id: str) -> OperationState:
        """The state of an operation."""
        found = self._read(self.request("GET", f"/jobs/{self.job_id}/{kind}/{trigger_id}"), _Progress)
        if found.status.id != "COMPLETED":
            return OperationState(is_ended=False, percent=found.progress)
        operation = found.operation
        failure = operation.failure or operation.checkpoint_failure
        if failure is not None:
            return OperationState(is_ended=True, percent=100, failure=failure.text.partition(": ")[2])
        result: Any = operation.location if kind == "savepoints" else operation.checkpoint_id
        if kind == "rescaling" and operation.before is not None and operation.after is not None and result is not None:
            result = RescaleRecord(operation.before, operation.after, result, operation.pause_ms, 0)
        if result is None:
            raise self._not_a_control_server()
        return OperationState(is_ended=True, percent=100, result=result)

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The data of the response, or the error of its status. No message contains the token."""
        try:
            response = self._client.request(method, path, json=body)
            data = response.json()
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            raise NotReachableError(f"the control server {self._url} does not answer: {_reason(error)}") from None
        except (ValueError, RecursionError):
            raise self._not_a_control_server() from None
        if response.is_success and isinstance(data, dict):
            return data
        raise self._error(response.status_code, data if isinstance(data, dict) else {})

    def _read(self, data: Any, kind: type[Answer]) -> Answer:
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError:
            raise self._not_a_control_server() from None

    def _not_a_control_server(self) -> NotReachableError:
        return NotReachableError(f"the server at {self._url} is not the control server of a job")

    def _error(self, status: int, data: dict[str, Any]) -> PenstockError:
        if data.get("code") == "NO_SAVEPOINT_DIRECTORY":
            return UsageError(NO_LOCATION)
        messages = data.get("errors")
        message = printable(str(messages[0])) if isinstance(messages, list) and messages else f"HTTP status {status}"
        kind = _ERRORS.get(status, JobError)
        return kind(f"{self._url} refused access: {message}" if kind is NotReachableError else message)


def connect_to_job(
    registry: Registry, text: str, server: ServerAddress | None, timeout_s: float = TIMEOUT_S
) -> RemoteJob:
    """The job with this id, this unique prefix of an id, or this name: on the server, or from the registry.

    Raises JobNotFoundError if it has ended, NotReachableError if its driver is gone or has no control server.
    """
    if server is None:
        return _in_registry(registry, registry.find(text), timeout_s)
    job = RemoteJob("", server, timeout_s)
    try:
        found = [entry for entry in job.overview() if text == entry["name"] or str(entry["jid"]).startswith(text)]
        if len(found) != 1:
            raise JobNotFoundError(f"no job {text!r} at {server.url} (see `penstock list -m {server.url}`)")
        job.job_id = str(found[0]["jid"])
    except BaseException:
        job.close()
        raise
    return job


def parse_server(text: str) -> str:
    """The URL in `host:port`, `http://host:port` or `https://host:port`.

    >>> parse_server("localhost:8081"), parse_server("https://gate:443/")
    ('http://localhost:8081', 'https://gate:443')
    """
    url = text if "://" in text else f"http://{text}"
    found = _SERVER.fullmatch(url)
    if found is None or int(found[3]) > MAX_PORT or not _is_host(found[2]):
        raise UsageError(f"-m {printable(text)!r} is not of the form host:port or https://host:port")
    return url.rstrip("/")


def _is_host(text: str) -> bool:
    """Whether what is in brackets is an address."""
    try:
        return not text.startswith("[") or bool(ipaddress.IPv6Address(text[1:-1]))
    except ValueError:
        return False


def _in_registry(registry: Registry, record: JobRecord, timeout_s: float) -> RemoteJob:
    if record.ended:
        raise JobNotFoundError(f"job {record.job_id} is {record.status}: it is not running")
    if not registry.is_alive(record):
        raise NotReachableError(
            f"the driver of job {record.job_id} is gone (process {record.pid} on {record.host}); resume the job with "
            f"`penstock run --resume`"
        )
    if record.rest is None:
        raise NotReachableError(
            f"job {record.job_id} has no control server; its driver printed the reason when it started"
        )
    if record.host != socket.gethostname() and any(f"//{name}:" in record.rest for name in LOCAL_NAMES):
        raise NotReachableError(
            f"job {record.job_id} runs on {record.host}, and its control server {record.rest} can be reached only from "
            f"there; use a tunnel and -m host:port"
        )
    token = read_token(Path(record.log_dir) / ADMIN_FILE)
    return RemoteJob(record.job_id, ServerAddress(record.rest, token), timeout_s)


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.TimeoutException):
        return "it timed out"
    return printable(str(error)) or type(error).__name__
