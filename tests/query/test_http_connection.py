"""Responses as servers and proxies may send them: whole, in pieces, in chunks, cut off, too long."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from penstock.control.remote_job import ServerAddress
from penstock.errors import NotReachableError, UsageError
from penstock.query.http_calls import HttpCalls
from penstock.query.http_connection import FAILURES, HttpConnection

HEAD = b"POST /x HTTP/1.1\r\nHost: h\r\n"


@contextmanager
def answering(*answers: Sequence[bytes]) -> Iterator[int]:
    """A server for one connection; each request gets the parts of one answer. Its port."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for parts in answers:
                connection.recv(65536)
                for part in parts:
                    connection.sendall(part)

    thread = threading.Thread(target=serve)
    thread.start()
    yield listening.getsockname()[1]
    thread.join()
    listening.close()


def connect(port: int) -> HttpConnection:
    return HttpConnection(urlsplit(f"http://127.0.0.1:{port}"), 5.0, 100)


@pytest.mark.parametrize(
    ("parts", "body", "can_continue"),
    [
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"], b"hello", True),
        ([b"HTTP/1.1 200 OK\r\ncontent-length:5\r\nConnection: Close\r\n\r\nhello"], b"hello", False),
        ([b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"], b"hello", False),
        ([b"HTTP/1.1 200\r\n\r\nhel", b"lo"], b"hello", False),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"], b"ok", True),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], b"", True),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokand more"], b"ok", False),
        (
            [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n", b"2\r\nlo\r\n0\r\nA: b\r\n\r\n"],
            b"hello",
            True,
        ),
    ],
)
def test_a_response_is_read_to_its_end(parts: list[bytes], body: bytes, can_continue: bool) -> None:
    for sent in (parts, [bytes((byte,)) for part in parts for byte in part]):
        with answering(sent) as port:
            connection = connect(port)
            response = connection.post(HEAD, b"{}")
            assert (response.body, response.can_continue) == (body, can_continue) or sent is not parts
            assert response.body == body
            connection.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 20\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
        b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70_000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * 101,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n" + b"0" * 70_000,
    ],
)
def test_what_is_not_a_whole_response_is_an_error(answer: bytes) -> None:
    with answering([answer]) as port:
        connection = connect(port)
        with pytest.raises(FAILURES):
            connection.post(HEAD, b"{}")
        connection.close()


def test_an_idle_connection_that_the_server_has_closed_is_replaced() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    requests: list[bytes] = []

    def serve() -> None:
        for _ in range(2):
            connection, _ = listening.accept()
            with connection:
                requests.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    thread = threading.Thread(target=serve)
    thread.start()
    host = f"127.0.0.1:{listening.getsockname()[1]}"
    calls = HttpCalls(ServerAddress(f"http://{host}", "token"), 5.0)
    assert [calls.post("/jobs/x/queries", b"{}") for _ in range(2)] == [b"ok", b"ok"]
    thread.join()
    assert requests[0] == requests[1] and requests[0].count(f"\r\nHost: {host}\r\n".encode()) == 1
    assert b"\r\nAuthorization: Bearer token\r\n" in requests[0] and requests[0].endswith(b"Length: 2\r\n\r\n{}")
    listening.close()
    calls.close()


def test_a_new_connection_that_is_closed_without_an_answer_is_an_error() -> None:
    with answering([]) as port:
        calls = HttpCalls(ServerAddress(f"http://127.0.0.1:{port}", "token"), 5.0)
        with pytest.raises(NotReachableError, match="has closed the connection"):
            calls.post("/jobs/x/queries", b"{}")


def test_no_token_adds_a_line_to_a_request() -> None:
    calls = HttpCalls(ServerAddress("http://127.0.0.1:1", "token\r\nX: y"), 5.0)
    with pytest.raises(UsageError, match="characters") as error:
        calls.post("/jobs/x/queries", b"{}")
    assert "token\r" not in str(error.value)
