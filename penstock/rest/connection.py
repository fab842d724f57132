"""Connections to the control server: limited in number, and closed if no request arrives in time (security S11)."""

import asyncio
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.model.ids import new_trigger_id
from penstock.rest.direct_queries import DirectConnection, DirectQueries, Leftover

MAX_CONNECTIONS = 100
HEADER_LIMIT_S = 30.0


class LimitedConnection(H11Protocol):
    """uvicorn's connection, with a time limit for the head. It reads a body only as fast as the application does."""

    header_limit_s = HEADER_LIMIT_S

    def __init__(self, *arguments: Any, direct_queries: DirectQueries | None = None, **named: Any) -> None:
        """uvicorn's arguments, and what answers plain queries in threads. None: the application answers them too."""
        super().__init__(*arguments, **named)
        self._direct_queries = direct_queries
        self._direct: DirectConnection | None = None
        """While a thread has the connection."""
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.close()
        else:
            self._start_deadline()

    def data_received(self, data: bytes) -> None:
        if self._pass_to_thread(data):
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._cancel_deadline()
        elif self._deadline is None:
            self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        if self._direct is None:
            super().shutdown()
        else:
            self._direct.stop()

    def _pass_to_thread(self, data: bytes) -> bool:
        """Whether a thread answers it. A request that has begun, and the answer before, are never divided."""
        if self._direct_queries is None or self.scheme != "http" or not data.startswith(b"POST "):
            return False
        is_idle = self.conn.our_state is h11.IDLE and self.conn.their_state is h11.IDLE
        if not is_idle or self.conn.trailing_data[0] or self.transport.get_write_buffer_size():
            return False
        sock = self.transport.get_extra_info("socket")

        def give_back(leftover: Leftover) -> None:
            self.loop.call_soon_threadsafe(self._take_back, leftover)

        self._direct = self._direct_queries.start(sock, data, give_back)
        if self._direct is None:
            return False
        self._unset_keepalive_if_required()
        self._cancel_deadline()
        self.flow.pause_reading()
        return True

    def _take_back(self, leftover: Leftover) -> None:
        """The thread has ended. What it has not sent or not answered is for the event loop."""
        assert self._direct is not None and self._direct_queries is not None
        is_stopping = self._direct.is_stopping
        self._direct_queries.ended(self._direct)
        self._direct = None
        if self.transport.is_closing():
            return
        self.transport.write(leftover.unsent)
        if leftover.is_last or is_stopping:
            self.transport.close()
            return
        self.flow.resume_reading()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        if leftover.received:
            self.data_received(leftover.received)

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not HTTP, in the form of all other errors."""
        request_id = new_trigger_id()
        data = {"errors": ["this is not a valid HTTP request"], "code": "BAD_REQUEST"}
        body = json.dumps({**data, "request_id": request_id}).encode()
        head = (
            f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nx-request-id: {request_id}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(head.encode() + body)
        self.transport.close()

    def _start_deadline(self) -> None:
        self._deadline = self.loop.call_later(self.header_limit_s, self.transport.close)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
