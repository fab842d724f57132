"""`GET /jobs/:jobid/events`: how the job is doing, as server-sent events, at most one a second.

An event is sent only if something has changed, so a page of an idle job costs a look at the job and nothing else. The
last event is `end`: then the stream ends, with the job.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from penstock.errors import RequestRefusedError

PERIOD_S = 1.0
SILENCE_PERIODS = 15
"""After so many periods without an event there is a comment, which tells both sides that the other one is there."""
MAX_STREAMS = 16
Figures = dict[str, Any]


class EventStreams:
    """The streams of one server, limited in number. Belongs to the server's event loop."""

    def __init__(self, most: int = MAX_STREAMS, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._most = most
        self._pause = pause
        self._open = 0

    def open(self, look: Callable[[], Figures], headers: Mapping[str, str]) -> StreamingResponse:
        """A response that goes on until the job has ended or the client is gone. `look` returns the figures now."""
        if self._open >= self._most:
            raise RequestRefusedError(
                429, "TOO_MANY_STREAMS", f"{self._most} pages follow this job already; close one of them"
            )
        return StreamingResponse(self._events(look), 200, dict(headers), media_type="text/event-stream")

    async def _events(self, look: Callable[[], Figures]) -> AsyncIterator[bytes]:
        self._open += 1
        try:
            async for event in changes(look, self._pause):
                yield event
        finally:
            self._open -= 1


async def changes(look: Callable[[], Figures], pause: Callable[[float], Awaitable[None]]) -> AsyncIterator[bytes]:
    """The figures whenever they have changed. The epochs in an event are those that no earlier one has had."""
    before: Figures | None = None
    last_epoch, silent = (0, 0), 0
    while True:
        figures = await run_in_threadpool(look)
        now = without_time(figures)
        if now != before:
            new = [epoch for epoch in figures["epochs"] if (epoch.committed_ms, epoch.epoch) > last_epoch]
            last_epoch = max([last_epoch, *((epoch.committed_ms, epoch.epoch) for epoch in new)])
            yield encode("end" if figures["ended"] else "figures", {**figures, "epochs": new})
            before, silent = now, 0
        elif (silent := silent + 1) >= SILENCE_PERIODS:
            yield b": the job is idle\n\n"
            silent = 0
        if figures["ended"]:
            return
        await pause(PERIOD_S)


def without_time(figures: Figures) -> Figures:
    """The figures without those that change by the passing of time alone.

    >>> without_time({"now": 5, "rows": 1, "subtasks": []})
    {'rows': 1, 'subtasks': []}
    """
    subtasks = [msgspec.structs.replace(subtask, idle_ms=0) for subtask in figures["subtasks"]]
    return {**{name: value for name, value in figures.items() if name != "now"}, "subtasks": subtasks}


def encode(name: str, data: Figures) -> bytes:
    """One event.

    >>> encode("end", {"rows": 1})
    b'event: end\\ndata: {"rows":1}\\n\\n'
    """
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
