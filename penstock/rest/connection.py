"""One connection to the control server: limited in number, and closed when its request does not come (security S11)."""

import asyncio
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.model.ids import new_trigger_id

MAX_CONNECTIONS = 100
HEADER_LIMIT_S = 30.0


class LimitedConnection(H11Protocol):
    """uvicorn's connection. It reads bodies only as fast as the application does, and heads within a time."""

    header_limit_s = HEADER_LIMIT_S
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.close()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._deadline is None:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP: said as every other error is."""
        request_id = new_trigger_id()
        data = {"errors": ["this is not an HTTP request that can be read"], "code": "BAD_REQUEST"}
        body = json.dumps({**data, "request_id": request_id}).encode()
        head = (
            f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nx-request-id: {request_id}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(head.encode() + body)
        self.transport.close()

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(self.header_limit_s, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
