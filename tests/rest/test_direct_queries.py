"""Queries that threads answer: the same answers as by way of the event loop, and connections that go back to it."""

import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.control.state_query import StateAnswer, StateQuery, not_ready
from penstock.model.snapshot import StateTableInfo
from penstock.rest import direct_queries
from penstock.rest.connection import LimitedConnection
from penstock.rest.direct_queries import MOST_DIRECT, parse_head
from penstock.rest.rest_settings import RestSettings
from penstock.rest.server import ControlServer
from penstock.runtime.process.messages import LiveState
from tests.rest.fake_job import JOB, TOKENS, FakeQueries, Served
from tests.waiting import wait_until

TOTALS = LiveState(StateTableInfo("sums", "total", "value", ["STRING"], "DOUBLE"), 0, "totals")
BODY = b'{"state":"totals","keys":["ada"]}'
HOST = b"Host: localhost"
TOKEN = b"Authorization: Bearer " + TOKENS.read.encode()
JSON = b"Content-Type: application/json"


class ThreadedQueries(FakeQueries):
    """Notes the threads that answer; waits for `may_answer`."""

    def __init__(self) -> None:
        super().__init__()
        self.known = [TOTALS]
        self.threads: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def read(self, state: LiveState, query: StateQuery) -> StateAnswer:
        self.threads.append(threading.current_thread().name)
        self.may_answer.wait(10)
        return super().read(state, query)

    @property
    def direct(self) -> list[bool]:
        return [name == "rest-query" for name in self.threads]


@pytest.fixture
def queries() -> ThreadedQueries:
    return ThreadedQueries()


@pytest.fixture
def server(tmp_path: Path, queries: ThreadedQueries) -> Iterator[ControlServer]:
    served, server = Served(tmp_path), ControlServer(RestSettings())
    served.job.queries = queries
    server.start(served.app, served.app.answer_query)
    yield server
    queries.may_answer.set()
    server.close()


def request(*lines: bytes, path: str = f"{JOB}/queries", body: bytes = BODY) -> bytes:
    head = (f"POST {path} HTTP/1.1".encode(), *(lines or (HOST, TOKEN, JSON)), b"Content-Length: %d" % len(body))
    return b"\r\n".join((*head, b"", body))


def connect(server: ControlServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def read_response(connection: socket.socket) -> bytes:
    data, end = bytearray(), -1
    while end < 0 or len(data) < end + 4 + length_of(data[:end]):
        part = connection.recv(1 << 20)
        assert part, f"cut off: {data[:300]!r}"
        data += part
        end = data.find(b"\r\n\r\n") if end < 0 else end
    return bytes(data)


def length_of(head: bytes | bytearray) -> int:
    found = re.search(rb"content-length: (\d+)", head)
    assert found is not None
    return int(found[1])


def ask(connection: socket.socket, *parts: bytes) -> bytes:
    for part in parts:
        connection.sendall(part)
        threading.Event().wait(0.05 if part is not parts[-1] else 0)
    return read_response(connection)


def without_id(response: bytes) -> bytes:
    return re.sub(rb"[0-9a-f]{32}", b"ID", response)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request(), 200),
        (request(path=f"/v1{JOB}/queries"), 200),
        (request(body=b'{"state":"totals","limit":5}'), 200),
        (request(HOST, TOKEN, b"Content-Type: application/json; charset=utf-8", b"Accept: */*"), 200),
        (request(HOST, TOKEN, JSON, b"Connection: keep-alive"), 200),
        (request(b"Host: evil.example", TOKEN, JSON), 421),
        (request(HOST, JSON), 401),
        (request(HOST, TOKEN + b"x", JSON), 401),
        (request(HOST, TOKEN.replace(b"Bearer", b"Basic"), JSON), 401),
        (request(HOST, TOKEN, b"Content-Type: text/plain"), 415),
        (request(HOST, TOKEN), 415),
        (request(HOST, TOKEN, JSON, b"User-Agent: " + b"a" * 17_000), 431),
        (request(path="/jobs/../queries"), 400),
        (request(path="/jobs/other/queries"), 404),
        (request(body=b""), 400),
        (request(body=b'{"state":"totals","state":"totals","keys":["ada"]}'), 400),
        (request(body=b'{"state":"totals","keys":["ada"],"x":1}'), 400),
        (request(body=b'{"state":"nobody","keys":["ada"]}'), 404),
        (request(body=msgspec.json.encode({"state": "totals", "keys": ["k"] * 1001})), 413),
        (request(body=b'{"state":"totals","keys":["' + b"a" * 900_000 + b'"]}'), 413),
    ],
)
def test_a_thread_answers_as_the_event_loop_does(server: ControlServer, data: bytes, status: int) -> None:
    with connect(server) as whole, connect(server) as divided:
        direct = ask(whole, data)
        usual = ask(divided, data[:40], data[40:])
    assert direct.startswith(b"HTTP/1.1 %d " % status), direct
    assert without_id(direct) == without_id(usual)
    assert direct != usual  # the ids of the requests
    assert (b"\r\nconnection: close" in direct) == (status != 200)


def test_all_queries_of_a_connection_are_answered_by_one_thread(
    server: ControlServer, queries: ThreadedQueries
) -> None:
    with connect(server) as connection:
        for _ in range(3):
            assert ask(connection, request()).endswith(b'"values":["ada"]}')
        assert ask(connection, request()[:300], request()[300:]).endswith(b'"values":["ada"]}')
        assert queries.direct == [True] * 4
        other = request().replace(b"POST", b"GET").replace(b"/queries", b"/status").replace(BODY, b"")
        assert ask(connection, re.sub(rb"Content-Length: \d+", b"Accept: */*", other)).startswith(b"HTTP/1.1 200")
        assert ask(connection, request()).endswith(b'"values":["ada"]}')
    assert queries.direct == [True] * 5


def test_requests_that_arrive_together_are_answered_in_their_order(
    server: ControlServer, queries: ThreadedQueries
) -> None:
    with connect(server) as connection:
        ask(connection, request())
        bodies = [b'{"state":"totals","keys":["%s"]}' % key for key in (b"ada", b"bob", b"eve")]
        connection.sendall(b"".join(request(body=body) for body in bodies))
        found = b""
        while found.count(b'"values":') < 3:
            found += connection.recv(65536)
        assert re.findall(rb'"values":\["(\w+)"\]', found) == [b"ada", b"bob", b"eve"]


@pytest.mark.full  # for the five seconds that idle connections stay open
def test_an_idle_connection_goes_back_and_is_closed_in_time(
    server: ControlServer, queries: ThreadedQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_queries, "LINGER_S", 0.1)
    with connect(server) as connection:
        ask(connection, request())
        wait_until(lambda: not query_threads())
        assert ask(connection, request()).endswith(b'"values":["ada"]}')
        assert connection.recv(1) == b""  # after the time for which idle connections stay open
    assert queries.direct == [True, True]


def query_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rest-query"]


def test_a_request_that_stops_halfway_is_for_the_limits_of_the_event_loop(
    server: ControlServer, queries: ThreadedQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_queries, "LINGER_S", 0.1)
    monkeypatch.setattr(LimitedConnection, "header_limit_s", 0.5)
    for size in (40, len(request()) - 3):
        with connect(server) as connection:
            ask(connection, request())
            connection.sendall(request()[:size])
            wait_until(lambda: not query_threads())
            if size == 40:
                assert connection.recv(1) == b""
            else:
                assert ask(connection, request()[size:]).endswith(b'"values":["ada"]}')


def test_only_some_connections_have_threads(server: ControlServer, queries: ThreadedQueries) -> None:
    queries.may_answer.clear()
    connections = [connect(server) for _ in range(MOST_DIRECT + 2)]
    for connection in connections:
        connection.sendall(request())
    wait_until(lambda: len(queries.threads) == len(connections))
    assert sum(queries.direct) == MOST_DIRECT
    queries.may_answer.set()
    for connection in connections:
        assert read_response(connection).endswith(b'"values":["ada"]}')
        connection.close()
    wait_until(lambda: not query_threads())


def test_an_answer_that_the_client_does_not_read_holds_no_thread(
    server: ControlServer, queries: ThreadedQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_queries, "LINGER_S", 0.1)
    large = msgspec.Raw(b'"' + b"a" * (16 << 20) + b'"')
    monkeypatch.setattr(queries, "read", lambda state, query: StateAnswer([large], 7))
    with connect(server) as connection:
        connection.sendall(request())
        wait_until(lambda: bool(query_threads()))
        wait_until(lambda: not query_threads())
        assert len(read_response(connection)) > 16 << 20
        monkeypatch.undo()
        assert ask(connection, request()).endswith(b'"values":["ada"]}')


def test_a_server_that_closes_finishes_the_query_that_runs(server: ControlServer, queries: ThreadedQueries) -> None:
    queries.may_answer.clear()
    with connect(server) as running, connect(server) as idle:
        queries.may_answer.set()
        ask(idle, request())
        queries.may_answer.clear()
        running.sendall(request())
        wait_until(lambda: len(queries.threads) == 2)
        closing = threading.Thread(target=server.close)
        closing.start()
        assert idle.recv(1) == b""
        queries.may_answer.set()
        assert read_response(running).endswith(b'"values":["ada"]}')
        assert running.recv(1) == b""
        closing.join()
    wait_until(lambda: not query_threads())


def test_what_a_job_cannot_answer_says_when_to_ask_again(server: ControlServer, queries: ThreadedQueries) -> None:
    queries.problem = not_ready("the job is RESTARTING")
    with connect(server) as connection:
        response = ask(connection, request())
    assert response.startswith(b"HTTP/1.1 503 Service Unavailable\r\n") and b"\r\nretry-after: 1\r\n" in response
    assert queries.direct == [True]


def test_an_error_of_our_own_shows_a_request_id_only(
    server: ControlServer, queries: ThreadedQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(queries, "read", fail)
    with connect(server) as connection:
        response = ask(connection, request())
    assert response.startswith(b"HTTP/1.1 500 ") and b"secret" not in response and b"internal error" in response


@pytest.mark.parametrize(
    "data",
    [
        request().replace(b"POST", b"PUT"),
        request().replace(b"HTTP/1.1", b"HTTP/1.0"),
        request().replace(b"/queries", b"/queries?x=y"),
        request().replace(b"/queries", b"/q%75eries"),
        request().replace(b"/queries", b"/state"),
        request().replace(b"\r\nHost", b"\r\nhost: localhost\r\nHost"),
        request().replace(b"\r\nHost", b"\r\nTransfer-Encoding: chunked\r\nHost"),
        request().replace(b"\r\nHost", b"\r\nContent-Encoding: gzip\r\nHost"),
        request().replace(b"\r\nHost", b"\r\nExpect: 100-continue\r\nHost"),
        request().replace(b"\r\nHost", b"\r\nOrigin: http://localhost\r\nHost"),
        request().replace(b"\r\nHost", b"\r\nCookie: penstock=x\r\nHost"),
        request().replace(b"\r\nHost", b"\r\nSec-Fetch-Site: cross-site\r\nHost"),
        request().replace(b"\r\nHost", b"\r\nIdempotency-Key: x\r\nHost"),
        request().replace(b"\r\nHost", b"\r\nConnection: close\r\nHost"),
        request().replace(b"\r\nHost", b"\r\nAccept: a\tb\r\nHost"),
        request().replace(b"\r\nHost", b"\r\n folded: x\r\nHost"),
        request().replace(b"\r\nHost", b"\r\nAccept : x\r\nHost"),
        request().replace(b"\r\n", b"\n"),
        request().replace(b"Content-Length: ", b"Content-Length: +"),
        request().replace(b"Content-Length: ", b"Content-Length: 0000000"),
        request().replace(b"Content-Length: ", b"X: "),
        b"",
        b"POST",
    ],
)
def test_anything_but_a_plain_query_is_left_to_the_event_loop(data: bytes) -> None:
    assert parse_head(request()) is not None
    assert parse_head(data) is None
