"""Connections to the control server: limited in number, and closed if no request arrives in time (security S11)."""

import asyncio
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.model.ids import new_trigger_id

MAX_CONNECTIONS = 100
HEADER_LIMIT_S = 30.0


class LimitedConnection(H11Protocol):
    """uvicorn's connection, with a time limit for the head. It reads a body only as fast as the application does."""

    header_limit_s = HEADER_LIMIT_S
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.close()
        else:
            self._start_deadline()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._cancel_deadline()
        elif self._deadline is None:
            self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

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
