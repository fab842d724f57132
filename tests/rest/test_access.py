"""Access to a job's control server: security S2, S3, S5 and reliability B-R1 to B-R8."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from starlette.websockets import WebSocketDisconnect

from penstock.errors import RequestRefusedError
from penstock.rest.app import Limits
from penstock.rest.bodies import SavepointBody, decode_body
from penstock.rest.page_routes import EVENTS
from penstock.rest.routes import ENDPOINTS
from tests.records import A_ID, job_record
from tests.rest.fake_job import ADMIN, JOB, READ, TOKENS, FakeJob, Served, end_savepoint, path_of

QUERIES = {"/jobs/{jobid}/state", "/jobs/{jobid}/state/{operator}/{state}", "/jobs/{jobid}/queries"}
"""A query may be longer than a URL, so it is a POST that changes nothing."""
EVERY_METHOD = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
PATHS = sorted({path_of(endpoint) for endpoint in ENDPOINTS})


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path)


def error_of(response: httpx.Response) -> str:
    """The message of an error response, whose form is checked."""
    data = response.json()
    assert set(data) == {"errors", "code", "request_id"} and len(data["errors"]) == 1
    assert data["request_id"] == response.headers["x-request-id"]
    return str(data["errors"][0])


def test_security_s4_the_route_list_is_the_golden_one() -> None:
    golden = Path(__file__).with_name("routes.txt").read_text(encoding="utf-8").splitlines()
    assert [f"{endpoint.scope} {endpoint.method} {endpoint.path}" for endpoint in ENDPOINTS] == golden


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKENS.admin}", TOKENS.admin, "Bearer \xff"],
)
def test_rest_r1_no_or_a_wrong_token_is_401_on_every_path(served: Served, authorization: str | None) -> None:
    del served.client.headers["Authorization"]
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    for path in [*PATHS, "/nowhere"]:
        response = served.client.get(path, headers=headers)
        assert response.status_code == 401 and response.headers["www-authenticate"] == "Bearer"
        assert TOKENS.admin not in response.text


@pytest.mark.parametrize("name", ["token", "access_token", "Authorization", "api_key"])
def test_rest_r1_a_token_in_the_url_is_refused_and_not_repeated(served: Served, name: str) -> None:
    response = served.client.get(f"/jobs?{name}={TOKENS.admin}")
    assert response.status_code == 401 and "URL" in error_of(response)
    assert TOKENS.admin not in response.text + served.log.read_text("utf-8") if served.log.exists() else response.text


def test_security_s2_the_read_token_only_reads(served: Served) -> None:
    for endpoint in (one for one in ENDPOINTS if one is not EVENTS):  # which goes on until the job ends
        path = path_of(endpoint)
        status = served.client.request(endpoint.method, path, headers=READ).status_code
        assert (status == 403) == (endpoint.scope == "admin"), (endpoint, status)
        assert endpoint.scope == "admin" or endpoint.method == "GET" or endpoint.path in QUERIES
    assert served.job.triggered == [] and not served.job.cancelled.is_set()


@pytest.mark.parametrize("method", EVERY_METHOD)
@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Host", "evil.com", 421),
        ("Host", "evil.com:8081", 421),
        ("Host", "127.0.0.1.evil.com", 421),
        ("Host", "", 421),
        ("Origin", "http://evil.com", 403),
        ("Origin", "null", 403),
        ("Origin", "http://localhost:3000", 403),
        ("Origin", "https://127.0.0.1:8081", 403),
        ("Sec-Fetch-Site", "cross-site", 403),
        ("Sec-Fetch-Site", "same-site", 403),
    ],
)
def test_rest_r2_foreign_hosts_origins_and_sites_are_refused_on_every_method(
    served: Served, method: str, header: str, value: str, status: int
) -> None:
    for path in PATHS:
        assert served.client.request(method, path, headers={header: value}).status_code == status
    assert served.job.triggered == [] and not served.job.cancelled.is_set()


@pytest.mark.parametrize("headers", [[("host", "a"), ("host", "a")], []])
def test_rest_r2_two_hosts_or_none_are_refused(served: Served, headers: list[tuple[str, str]]) -> None:
    assert raw_request(served, headers) == 421


def raw_request(served: Served, headers: list[tuple[str, str]], path: str = "/jobs") -> int:
    """The status of a GET of exactly this path with exactly these headers."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in headers]
    scope = {"type": "http", "method": "GET", "path": unquote(path), "raw_path": path.encode(), "headers": raw}
    asyncio.run(served.app({**scope, "query_string": b""}, receive, send))
    return int(sent[0]["status"])


@pytest.mark.parametrize("host", ["127.0.0.1:8081", "localhost:8081", "[::1]:8081", "LOCALHOST", "localhost:9999"])
def test_security_s3_the_names_of_this_machine_are_accepted(served: Served, host: str) -> None:
    assert served.client.get("/jobs", headers={"Host": host}).status_code == 200
    own = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    assert served.client.get("/jobs", headers=own).status_code == 200


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_security_s3_no_response_allows_other_origins_to_read_it(served: Served, method: str) -> None:
    for headers in ({}, {"Origin": "http://127.0.0.1:8081", "Access-Control-Request-Method": "PATCH"}):
        response = served.client.request(method, "/jobs", headers=headers)
        assert not [name for name in response.headers if name.startswith("access-control")]
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in response.headers


def test_rest_r2_web_sockets_are_refused(served: Served) -> None:
    with pytest.raises(WebSocketDisconnect), served.client.websocket_connect("/jobs"):
        pass


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/../jobs",
        "/jobs/%2e%2e%2fetc%2fpasswd",
        "/jobs/%252e%252e",
        "/jobs/..\\..\\x",
        "/jobs//etc/passwd",
        "/jobs/a%00b",
        "/jobs/a%0d%0ab",
        "/jobs/%c3%bc",
    ],
)
def test_rest_r3_paths_that_lead_elsewhere_are_400(served: Served, path: str) -> None:
    assert raw_request(served, [("host", "localhost"), *ADMIN.items()], path) == 400


@pytest.mark.parametrize(("path", "status"), [("/nowhere", 404), ("/v1", 404), ("/v2/jobs", 404), ("/jobs/", 404)])
def test_rest_r7_an_unknown_path_is_404(served: Served, path: str, status: int) -> None:
    assert served.client.get(path).status_code == status


@pytest.mark.parametrize(("method", "path"), [("DELETE", JOB), ("POST", "/jobs"), ("PUT", JOB + "/savepoints")])
def test_rest_r7_an_unknown_method_is_405(served: Served, method: str, path: str) -> None:
    assert served.client.request(method, path).status_code == 405


def test_rest_r7_an_unknown_job_is_404_and_another_content_type_415(served: Served) -> None:
    other = f"/jobs/{'b' * 32}"
    for path in (other, other + "/status", other + "/checkpoints", other + "/exceptions"):
        assert error_of(served.client.get(path)) == "Job could not be found."
    response = served.client.post(JOB + "/savepoints", content=b"<x/>", headers={"Content-Type": "text/xml"})
    assert response.status_code == 415
    assert served.client.post(JOB + "/savepoints", content=b"x=1").status_code == 415
    zipped = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert served.client.post(JOB + "/savepoints", content=b"{}", headers=zipped).status_code == 415


@pytest.mark.parametrize("job_id", ["a" * 65, "a.b", "a:b", "~"])
def test_rest_r8_what_is_not_an_id_is_400(served: Served, job_id: str) -> None:
    for path in ("", "/status", "/checkpoints"):
        assert served.client.get(f"/jobs/{job_id}{path}").status_code == 400


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "malformed|truncated"),
        (b"[1]", "Expected `object`"),
        (b'{"target-directory": NaN}', "malformed|invalid"),
        (b'{"target-directory": 1}', "at `$.target-directory`"),
        (b'{"target-directory": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "at `$.target-directory`"),
        (b"[" * 10_000, "Expected `object`"),
        (b'{"cancel-job": ' + b"1" + b"0" * 400 + b"}", "at `$.cancel-job`"),
        (b'{"cancel-job": "yes"}', "at `$.cancel-job`"),
        (b'{"targetDirectory": "/x"}', "unknown field `targetDirectory`"),
        (b'{"formatType": "CANONICAL", "formatType": "NATIVE"}', "at `$.formatType`"),
        (b'{"formatType": "canonicl"}', "$.formatType"),
        (b'{"triggerId": "../x"}', "$.triggerId"),
        (b'{"target-directory": "savepoints"}', "$.target-directory"),
        (b'{"target-directory": "/a/../../etc"}', "$.target-directory"),
        (b'{"target-directory": "file:///a/..%2fb"}', "$.target-directory"),
        (b'{"target-directory": "file:///a/%2e./b"}', "$.target-directory"),
        (b'{"target-directory": "/a\\u0000b"}', "$.target-directory"),
        (b'{"target-directory": "ftp://host/x"}', "$.target-directory"),
        (b'{"target-directory": ""}', "$.target-directory"),
        (b"{" + b",".join(b'"k%d":1' % n for n in range(90_000)) + b"}", "unknown field `k0`"),
        (b"{" + b",".join([b'"formatType":"x"'] * 60_000) + b"}", "at `$.formatType`"),
        (b"\xff\xfe", "malformed|invalid|UTF-8"),
    ],
)
def test_rest_r6_a_bad_body_is_400_and_names_the_field(served: Served, body: bytes, said: str) -> None:
    assert len(body) < 1 << 20
    response = served.client.post(JOB + "/savepoints", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert any(part in error_of(response) for part in said.split("|")), error_of(response)
    assert len(response.text) < 1000
    assert served.job.triggered == []


@pytest.mark.parametrize(
    "body",
    [
        b"{" + b",".join(b'"k%d":1' % n for n in range(90_000)) + b"}",
        b"{" + b",".join([b'"formatType":"x"'] * 60_000) + b"}",
        b"[" * (1 << 20),
        b'{"cancel-job":' + b"9" * (1 << 20),
    ],
)
def test_rest_r6_reading_a_bad_body_takes_less_than_100_ms(body: bytes) -> None:
    # The best of five: one of them may collect the garbage of other tests.
    assert min(cpu_seconds_to_refuse(body) for _ in range(5)) < 0.1


def cpu_seconds_to_refuse(body: bytes) -> float:
    start_s = time.thread_time()
    with pytest.raises(RequestRefusedError):
        decode_body(body, SavepointBody)
    return time.thread_time() - start_s


def test_rest_r5_a_large_body_is_413(served: Served) -> None:
    body = json.dumps({"target-directory": "x" * (1 << 20)}).encode()
    headers = {"Content-Type": "application/json"}
    assert served.client.post(JOB + "/savepoints", content=body, headers=headers).status_code == 413
    parts = iter([body[:1000], body[1000:]])  # in chunks, without a length
    assert served.client.post(JOB + "/savepoints", content=parts, headers=headers).status_code == 413
    assert served.job.triggered == []


def test_rest_r5_a_body_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    served = Served(tmp_path, limits=Limits(body_bytes=20))
    headers = {"Content-Type": "application/json"}
    assert served.client.post(JOB + "/savepoints", content=b"{}" + b" " * 18, headers=headers).status_code == 202
    assert served.client.post(JOB + "/savepoints", content=b"{}" + b" " * 19, headers=headers).status_code == 413
    end_savepoint(served.job.requests.popitem()[1])


def test_unknown_parameters_are_refused_and_their_values_not_repeated(served: Served) -> None:
    response = served.client.get("/jobs?colour=purple")
    assert response.status_code == 400 and "'colour'" in error_of(response) and "purple" not in response.text
    assert served.client.patch(JOB + "?mode=cancel&mode=stop").status_code == 400
    assert not served.job.cancelled.is_set()


def test_security_s18_an_internal_error_shows_only_its_request_id(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: FakeJob) -> None:
        raise ValueError("secret detail in /home/somebody")

    monkeypatch.setattr(FakeJob, "checkpoints", fail)
    response = served.client.get(JOB + "/checkpoints")
    assert response.status_code == 500
    assert "secret" not in response.text and "Traceback" not in response.text
    request_id = response.json()["request_id"]
    log = served.log.read_text("utf-8")
    assert request_id in log and "secret detail" in log and TOKENS.admin not in log


def test_security_s22_requests_that_change_something_are_in_the_drivers_log(served: Served) -> None:
    served.client.post(JOB + "/savepoints", json={"triggerId": "1" * 32})
    served.client.post(JOB + "/savepoints", json={"triggerId": "2" * 32})
    end_savepoint(served.job.requests["1" * 32])
    operation = served.control.operations.find("savepoint", "1" * 32)
    assert operation is not None and operation.future.result(30)
    served.client.patch(JOB, headers=READ)
    served.client.patch(JOB)
    served.client.get(JOB)
    lines = [line.split(" | ", 1)[1] for line in served.log.read_text("utf-8").splitlines() if " audit " in line]
    shown = [line for line in lines if "ended" not in line]
    assert [line.split(" job=")[0] for line in shown] == [
        "POST /jobs/{jobid}/savepoints",
        "POST /jobs/{jobid}/savepoints",
        "PATCH /jobs/{jobid}",
        "PATCH /jobs/{jobid}",
    ]
    assert [line.rsplit("status=", 1)[1] for line in shown] == ["202", "409", "403", "202"]
    assert all(f"job={A_ID}" in line and "request=" in line for line in shown)
    assert "token=admin:" in shown[0] and "token=read:" in shown[2]
    log = served.log.read_text("utf-8")
    assert TOKENS.admin not in log and TOKENS.read not in log


def test_security_s18_control_characters_do_not_reach_the_log(served: Served) -> None:
    served.control.log.audit("test", name="a\nb\x1b[31m\u202ec\u2028d")
    (line,) = served.log.read_text("utf-8").splitlines()
    assert line.endswith(" | test name=a?b?[31m?c?d")


def test_both_prefixes_lead_to_the_same(served: Served) -> None:
    served.job.current = job_record(status="FINISHED")  # so that the stream of events ends
    for path in PATHS:
        one, other = served.client.get(path), served.client.get("/v1" + path)
        assert one.status_code == other.status_code
    assert ADMIN["Authorization"] not in served.client.get("/v1/jobs").text
