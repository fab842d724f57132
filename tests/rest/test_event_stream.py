"""The events of a job: what is sent, when nothing is, and how the stream ends."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.errors import RequestRefusedError
from penstock.model.recent_epoch import RecentEpoch
from penstock.model.subtask_work import SubtaskFigures
from penstock.rest.event_stream import SILENCE_PERIODS, EventStreams, changes
from penstock.rest.rest_settings import RestSettings
from penstock.rest.server import ControlServer
from tests.records import job_record
from tests.rest.fake_job import ADMIN, JOB, READ, Served

Look = dict[str, Any]


def figures(rows: int, *epochs: int, ended: bool = False) -> Look:
    recent = [RecentEpoch(epoch, 0, 10 * epoch, 1, 1) for epoch in epochs]
    return {"now": rows, "rows": rows, "epochs": recent, "subtasks": [], "ended": ended}


def events_of(looks: list[Look]) -> tuple[list[bytes], list[float]]:
    """All events of a job that is seen like this, and how long the stream paused between two looks."""
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    async def collect() -> list[bytes]:
        left = iter(looks)
        return [event async for event in changes(lambda: next(left), pause)]

    return asyncio.run(collect()), paused


def data_of(event: bytes) -> tuple[str, Look]:
    name, data = event.decode().removesuffix("\n\n").split("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_at_most_one_event_a_second_and_none_without_a_change() -> None:
    looks = [figures(1), {**figures(1), "now": 2}, figures(3), figures(4, ended=True)]
    found, paused = events_of(looks)
    assert [data_of(event)[1]["rows"] for event in found] == [1, 3, 4]
    assert [data_of(event)[0] for event in found] == ["figures", "figures", "end"]
    assert paused == [1.0, 1.0, 1.0]


def test_an_event_has_only_the_epochs_that_no_earlier_one_had() -> None:
    found, _ = events_of([figures(1, 1, 2), figures(2, 1, 2, 3), figures(3, 2, 3, ended=True)])
    assert [[epoch["epoch"] for epoch in data_of(event)[1]["epochs"]] for event in found] == [[1, 2], [3], []]


def test_a_restart_that_repeats_an_epoch_number_sends_it_again() -> None:
    again = {**figures(2), "epochs": [RecentEpoch(2, 0, 20, 1, 1), RecentEpoch(2, 0, 50, 1, 1)]}
    found, _ = events_of([figures(1, 2), again, figures(3, ended=True)])
    assert [epoch["committed-ms"] for epoch in data_of(found[1])[1]["epochs"]] == [50]


def test_time_that_passes_in_an_idle_subtask_is_no_change() -> None:
    looks = [{**figures(1), "subtasks": [SubtaskFigures("s0", 0, idle_ms=ms)]} for ms in (10, 20)]
    found, _ = events_of([*looks, figures(2, ended=True)])
    assert [data_of(event)[0] for event in found] == ["figures", "end"]


def test_an_idle_stream_shows_that_both_sides_are_there() -> None:
    found, _ = events_of([figures(1)] * (SILENCE_PERIODS + 1) + [figures(2, ended=True)])
    assert [event.startswith(b": ") for event in found] == [False, True, False]


def test_only_so_many_pages_follow_a_job() -> None:
    async def first(streams: EventStreams, look: Callable[[], Look]) -> None:
        stream = streams.open(look, {}).body_iterator
        await anext(aiter(stream))
        with pytest.raises(RequestRefusedError, match="1 pages follow this job already") as refused:
            streams.open(look, {})
        assert refused.value.status == 429
        await stream.aclose()  # type: ignore[attr-defined]  # the page is closed
        streams.open(look, {})

    asyncio.run(first(EventStreams(1), lambda: figures(1)))


def test_the_stream_of_a_job_ends_with_it_and_leaves_the_server_free(tmp_path: Path) -> None:
    served, server = Served(tmp_path), ControlServer(RestSettings())
    server.start(served.app)
    url = f"{server.address}{JOB}/events"
    try:
        assert httpx.get(url, trust_env=False).status_code == 401
        with httpx.stream("GET", url, headers=READ, trust_env=False) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.headers["cache-control"] == "no-store"
            lines = answer.iter_lines()
            assert next(lines) == "event: figures"
            served.job.current = job_record(status="FINISHED")
            assert [line for line in lines if line.startswith("event: ")] == ["event: end"]
        assert httpx.get(f"{server.address}/jobs", headers=ADMIN, trust_env=False).status_code == 200
    finally:
        server.close()
