"""Queries of programs without a detour: a connection that sends one query after the other gets a thread of its own.

Between a socket and an endpoint, the event loop, ASGI and a thread pool take several times as long as a query. So a
plain query that has arrived as a whole is taken off the event loop together with its connection. The thread answers it
and those that follow. Whatever else happens on the connection (another request, one that arrives slowly, a client that
reads slowly, no request for a second, the end) gives it back to the event loop, which knows all limits.

All access rules are those of the application, in the same order.
"""

import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from penstock.clock import SystemClock

MOST_DIRECT = 8
"""So many connections have threads. Those beyond are answered by way of the event loop."""
LINGER_S = 1.0
"""How long a thread waits for the next request."""
RECEIVED_BYTES = 64 << 10
_HEAD = re.compile(
    rb"POST ((?:/v1)?/jobs/([A-Za-z0-9_.:~-]{1,64})/queries) HTTP/1\.1\r\n"
    rb"((?:[A-Za-z-]{1,40}: [\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?\r\n){1,12})\r\n"
)
_NEEDED = frozenset({b"host", b"content-length"})
_PLAIN = _NEEDED | {b"authorization", b"content-type", b"accept", b"accept-encoding", b"user-agent", b"connection"}
_LENGTH = re.compile(rb"[0-9]{1,6}")
_CLOCK = SystemClock()


@dataclass(frozen=True)
class QueryHead:
    """The head of a plain query: each header once, and only those that programs send."""

    path: bytes
    job_id: str
    headers: list[tuple[bytes, bytes]]
    """With names in lower case."""
    size: int
    """Of the head."""
    end: int
    """Of the whole request."""


Answer = Callable[[QueryHead, bytes], tuple[bytes, bool]]
"""(head, body) -> the whole response, and whether the connection ends after it. Any thread."""


@dataclass(frozen=True)
class Leftover:
    """What a thread leaves to the event loop."""

    unsent: bytes = b""
    """Of the last answer."""
    received: bytes = b""
    """And not answered."""
    is_last: bool = False
    """The connection ends."""


GiveBack = Callable[[Leftover], None]
"""The connection is the event loop's again."""


def parse_head(data: bytes) -> QueryHead | None:
    """The head of the request that `data` begins with; None for anything but a plain query.

    >>> head = parse_head(b"POST /jobs/a1/queries HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
    >>> head.job_id, head.headers, head.end - head.size
    ('a1', [(b'host', b'localhost'), (b'content-length', b'2')], 2)
    """
    found = _HEAD.match(data)
    if found is None:
        return None
    lines = found[3].split(b"\r\n")[:-1]
    headers = [(name.lower(), value) for name, _, value in (line.partition(b": ") for line in lines)]
    fields = dict(headers)
    if len(fields) < len(headers) or not _NEEDED <= fields.keys() <= _PLAIN:
        return None
    length = fields[b"content-length"]
    if not _LENGTH.fullmatch(length) or fields.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    size = found.end()
    return QueryHead(found[1], found[2].decode(), headers, size, size + int(length))


class DirectQueries:
    """The threads of a server. `start` is called by the event loop's thread only."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._running: set[DirectConnection] = set()

    def start(self, sock: socket.socket, data: bytes, give_back: GiveBack) -> "DirectConnection | None":
        """Answer these bytes in a thread, and what comes after them; None if they are not a whole query.

        Nobody else may use the connection until it is given back, and then `ended` must be called.
        """
        head = parse_head(data)
        if head is None or head.end != len(data) or len(self._running) >= MOST_DIRECT:
            return None
        try:
            connection = DirectConnection(sock.dup(), self._answer, give_back)
        except OSError:  # no file descriptor is left
            return None
        thread = threading.Thread(target=connection.serve, args=(head, data), name="rest-query", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread is left
            connection.close()
            return None
        self._running.add(connection)
        return connection

    def ended(self, connection: "DirectConnection") -> None:
        """It has been given back."""
        self._running.discard(connection)


class DirectConnection:
    """A connection while a thread answers its queries."""

    def __init__(self, sock: socket.socket, answer: Answer, give_back: GiveBack) -> None:
        self._socket = sock
        self._answer = answer
        self._give_back = give_back
        self._lock = threading.Lock()
        self._is_closed = False
        self.is_stopping = False
        """It ends when it is given back."""

    def stop(self) -> None:
        """Give the connection back when the query that runs now is answered. Any thread."""
        with self._lock:
            self.is_stopping = True
            if not self._is_closed:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RD)

    def serve(self, head: QueryHead, data: bytes) -> None:
        """Answer until there is something that is not a plain query."""
        leftover = Leftover(is_last=True)  # if the client is gone
        try:
            self._socket.settimeout(LINGER_S)
            leftover = self._answer_all(head, data)
        except OSError:
            pass
        finally:
            self.close()
            with suppress(RuntimeError):  # the event loop has ended meanwhile
                self._give_back(leftover)

    def _answer_all(self, head: QueryHead | None, data: bytes) -> Leftover:
        while head is not None:
            response, is_last = self._answer(head, data[head.size :])
            sent = self._send(response)
            if sent < len(response) or is_last or self.is_stopping:
                return Leftover(response[sent:], is_last=is_last)
            data, head = self._receive()
        return Leftover(received=data)

    def close(self) -> None:
        """End the use of the socket, which stays open for the event loop."""
        with self._lock:
            self._is_closed = True
            self._socket.close()

    def _send(self, data: bytes) -> int:
        """How much of it the client has taken. The rest is sent by the event loop."""
        try:
            return self._socket.send(data)
        except TimeoutError:
            return 0

    def _receive(self) -> tuple[bytes, QueryHead | None]:
        """What has been received, and its head if it is a whole query."""
        data = self._receive_some()
        head = parse_head(data)
        if head is not None and len(data) < head.end:
            data += self._receive_rest(head.end - len(data))
        return data, head if head is not None and len(data) == head.end else None

    def _receive_rest(self, missing: int) -> bytes:
        """The rest of a request, if it comes soon."""
        parts: list[bytes] = []
        deadline_s = _CLOCK.monotonic_s() + LINGER_S
        while missing > 0 and _CLOCK.monotonic_s() < deadline_s:
            parts.append(self._receive_some())
            if not parts[-1]:
                break
            missing -= len(parts[-1])
        return b"".join(parts)

    def _receive_some(self) -> bytes:
        """Nothing if nothing came in time, or the client has ended the connection."""
        try:
            return self._socket.recv(RECEIVED_BYTES)
        except TimeoutError:
            return b""
