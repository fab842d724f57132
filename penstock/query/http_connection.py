"""One connection to a control server, and requests on it: what queries need of HTTP/1.1, in few calls.

A request is sent as one piece, and its response usually arrives as one. Connecting, with TLS or without, is that of
`http.client`.
"""

import http.client
import re
import socket
from dataclasses import dataclass
from urllib.parse import SplitResult

FAILURES = (OSError, http.client.HTTPException)
"""What connecting and requests raise."""
MAX_HEAD_BYTES = 64 << 10
_RECEIVED = 64 << 10
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: |$)")


@dataclass(frozen=True)
class HttpResponse:
    """A response with its body."""

    status: int
    headers: dict[bytes, bytes]
    """With names in lower case."""
    body: bytes
    can_continue: bool
    """Whether the connection takes another request."""


class HttpConnection:
    """Of one thread at a time. After any error it is closed, not used again."""

    def __init__(self, server: SplitResult, timeout_s: float, max_body_bytes: int) -> None:
        kind = http.client.HTTPSConnection if server.scheme == "https" else http.client.HTTPConnection
        connection = kind(server.hostname or "", server.port, timeout=timeout_s)
        connection.connect()
        self._socket: socket.socket = connection.sock
        self._max_body_bytes = max_body_bytes
        self._received = b""
        """After the last response, or the start of the next one."""

    def post(self, head: bytes, body: bytes) -> HttpResponse:
        """The response. ConnectionResetError if the server has closed the connection before it.

        Args:
            head: The request line and all headers but the length of the body, without the empty line.
            body: The whole body.
        """
        self._socket.sendall(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        while True:
            version, status, headers = self._read_head()
            if status >= 200:
                break
        data, is_delimited = self._read_body(status, headers)
        is_last = version == b"0" or b"close" in headers.get(b"connection", b"").lower()
        return HttpResponse(status, headers, data, is_delimited and not is_last and not self._received)

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _read_head(self) -> tuple[bytes, int, dict[bytes, bytes]]:
        """The version's last digit, the status and the headers."""
        if not self._received:
            self._received = self._socket.recv(_RECEIVED)
            if not self._received:
                raise ConnectionResetError("the server has closed the connection")
        while (end := self._received.find(b"\r\n\r\n")) < 0:
            if len(self._received) > MAX_HEAD_BYTES:
                raise http.client.HTTPException("the head of the response is too long")
            self._receive_more()
        status_line, *lines = self._received[:end].split(b"\r\n")
        self._received = self._received[end + 4 :]
        found = _STATUS.match(status_line)
        if found is None:
            raise http.client.HTTPException("the response is not HTTP/1.1")
        fields = (line.partition(b":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in fields}
        return found[1], int(found[2]), headers

    def _read_body(self, status: int, headers: dict[bytes, bytes]) -> tuple[bytes, bool]:
        """The body, and whether it says itself where it ends."""
        if status in (204, 304):
            return b"", True
        if headers.get(b"transfer-encoding", b"identity").lower() != b"identity":
            return self._read_chunks(), True
        length = headers.get(b"content-length")
        if length is None:
            return self._read_to_end(), False
        if not length.isdigit():
            raise http.client.HTTPException("the length of the response is not a number")
        return self._take(int(length[:20])), True

    def _read_chunks(self) -> bytes:
        parts: list[bytes] = []
        left = self._max_body_bytes
        while True:
            size = _chunk_size(self._take_line())
            if not size:
                while self._take_line():  # trailers
                    pass
                return b"".join(parts)
            left -= size
            if left < 0:
                raise _too_long()
            parts.append(self._take(size))
            if self._take_line():
                raise http.client.HTTPException("a part of the response is longer than it says")

    def _read_to_end(self) -> bytes:
        parts: list[bytes] = []
        part, self._received = self._received or self._socket.recv(_RECEIVED), b""
        left = self._max_body_bytes
        while part:
            left -= len(part)
            if left < 0:
                raise _too_long()
            parts.append(part)
            part = self._socket.recv(_RECEIVED)
        return b"".join(parts)

    def _take(self, size: int) -> bytes:
        """The next bytes, exactly so many."""
        if size > self._max_body_bytes:
            raise _too_long()
        missing = size - len(self._received)
        if missing <= 0:
            data, self._received = self._received[:size], self._received[size:]
            return data
        parts, self._received = [self._received], b""
        while missing:
            parts.append(self._recv(min(missing, _RECEIVED)))
            missing -= len(parts[-1])
        return b"".join(parts)

    def _take_line(self) -> bytes:
        while (end := self._received.find(b"\r\n")) < 0:
            if len(self._received) > MAX_HEAD_BYTES:
                raise http.client.HTTPException("a line of the response is too long")
            self._receive_more()
        line, self._received = self._received[:end], self._received[end + 2 :]
        return line

    def _receive_more(self) -> None:
        self._received += self._recv(_RECEIVED)

    def _recv(self, size: int) -> bytes:
        data = self._socket.recv(size)
        if not data:
            raise http.client.HTTPException("the response is cut off")
        return data


def _chunk_size(line: bytes) -> int:
    text = line.partition(b";")[0].strip()
    if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", text):
        raise http.client.HTTPException("the size of a part of the response is not a number")
    return int(text, 16)


def _too_long() -> http.client.HTTPException:
    return http.client.HTTPException("the response is too long")
