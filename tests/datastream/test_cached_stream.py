"""Cached streams as nodes of the graph: computed and kept by the first job, read as a source by later ones."""

from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import CachedDataStream, DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.cached_stream import use_caches
from penstock.errors import UsageError

BATCH = RuntimeExecutionMode.BATCH


class Frame:
    """A DataFrame whose rows are kept."""

    def localCheckpoint(self, *, eager: bool) -> "Frame":
        assert eager
        return self


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


def cached(env: StreamExecutionEnvironment) -> tuple[DataStream, CachedDataStream]:
    stream = env.from_collection([1, 2], Types.INT()).map(lambda value: value, Types.INT())
    return stream, stream.cache()


def kinds(env: StreamExecutionEnvironment) -> list[str]:
    return [node.name for node in env._graph.to_execute()]


def use(env: StreamExecutionEnvironment, mode: RuntimeExecutionMode = BATCH) -> list[str]:
    """The names of the nodes that the next job has; it fills every empty cache."""
    use_caches(env._graph, env._caches, mode)
    found = kinds(env)
    for node in env._graph.to_execute():
        if node.name == "Cache" and node.kind == "sink":
            node.payload.config(Frame(), None)
    env._graph.executed()
    return found


def test_the_first_job_keeps_the_records_and_the_next_one_reads_them(env: StreamExecutionEnvironment) -> None:
    _, kept = cached(env)
    kept.filter(lambda value: True).print()
    assert use(env) == ["Collection Source", "Map", "Cache", "Filter", "Print to Std. Out", "Cache"]
    kept.print()
    assert use(env) == ["Cache", "Print to Std. Out"]
    kept.invalidate()
    kept.print()
    assert use(env) == ["Collection Source", "Map", "Cache", "Print to Std. Out", "Cache"]


def test_a_job_that_does_not_use_the_stream_does_not_compute_it(env: StreamExecutionEnvironment) -> None:
    cached(env)
    env._graph.executed()
    env.from_collection([1]).print()
    assert use(env) == ["Collection Source", "Print to Std. Out"]


def test_a_cache_behind_a_filled_one_starts_there(env: StreamExecutionEnvironment) -> None:
    _, first = cached(env)
    second = first.filter(lambda value: True).cache()
    first.print()
    use(env)
    second.print()
    assert use(env) == ["Cache", "Filter", "Cache", "Print to Std. Out", "Cache"]
    second.print()
    assert use(env) == ["Cache", "Print to Std. Out"]


def test_streaming_mode_is_refused_with_what_to_do(env: StreamExecutionEnvironment) -> None:
    _, kept = cached(env)
    kept.print()
    with pytest.raises(UsageError, match=r"cache\(\) keeps the records of bounded input.*RuntimeExecutionMode.BATCH"):
        use(env, RuntimeExecutionMode.STREAMING)
    assert use(env, RuntimeExecutionMode.AUTOMATIC)


def test_caching_twice_is_caching_once(env: StreamExecutionEnvironment) -> None:
    stream, kept = cached(env)
    assert kept.cache() is kept
    assert kept.get_type() == stream.get_type()


@pytest.mark.parametrize(
    ("method", "arguments", "action"),
    [
        ("name", ["a"], "Set name"),
        ("get_name", [], "Get name"),
        ("uid", ["a"], "Set uid"),
        ("set_uid_hash", ["a" * 32], "Set uid hash"),
        ("set_parallelism", [2], "Set parallelism"),
        ("set_max_parallelism", [2], "Set max parallelism"),
        ("force_non_parallel", [], "Set force non-parallel"),
        ("set_buffer_timeout", [1], "Set buffer timeout"),
        ("start_new_chain", [], "Start new chain"),
        ("disable_chaining", [], "Disable chaining"),
        ("slot_sharing_group", ["a"], "Setting slot sharing group"),
    ],
)
def test_a_cached_stream_has_no_settings_of_an_operator(
    env: StreamExecutionEnvironment, method: str, arguments: list[Any], action: str
) -> None:
    _, kept = cached(env)
    with pytest.raises(UsageError, match=f"{action} for CachedDataStream is not supported. Call it on the stream bef"):
        getattr(kept, method)(*arguments)
