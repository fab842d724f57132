"""A pattern of events on real Spark, with events of one key in many epochs."""

from collections import Counter
from typing import Any

from penstock.cep import CEP, AfterMatchSkipStrategy, Pattern
from penstock.common import Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream.connectors.file_system import FileSink
from tests.spark.jobs import Jobs, collect, read_json
from tests.spark.recoveries import RESTARTS, await_attempt, cancel, kill_taskmanager
from tests.waiting import wait_until


class ByNumber(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value.at)


def test_matches_across_epochs_at_parallelism_3(jobs: Jobs) -> None:
    env = jobs.environment(3, {"penstock.epoch.max-rows": "7"})
    rows = [(f"k{n % 5}", "aabc"[n // 5 % 4], n) for n in range(60)]
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByNumber())
    events = env.from_collection(rows, "key string, letter string, at bigint").assign_timestamps_and_watermarks(times)
    pattern = (
        Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event())
        .where(lambda e: e.letter == "a")
        .one_or_more()
        .greedy()
        .followed_by("c")
        .where(lambda e, ctx: e.letter == "c" and len(ctx.get_events_for_pattern("a")) == 2)
        .within(Time.seconds(1))
    )
    found = CEP.pattern(events.key_by("key"), pattern).select(
        lambda match: (match["a"][0].key, [e.at for e in match["a"]], match["c"][0].at),
        Types.TUPLE([Types.STRING(), Types.LIST(Types.LONG()), Types.LONG()]),
    )
    expected = [(f"k{k}", (k + n, k + n + 5), k + n + 15) for k in range(5) for n in (0, 20, 40)]
    assert collect(found.map(lambda match: (match[0], tuple(match[1]), match[2]))) == Counter(expected)


def test_partial_matches_survive_a_killed_taskmanager(jobs: Jobs) -> None:
    env = jobs.environment(3, RESTARTS)
    jobs.write_json("1.json", [*letters("k", 10, "a"), *letters("m", 5, "a"), *letters("m", 5, "b")])
    events = env.from_dataframe(jobs.json_stream("key string, letter string")).uid("events")
    pattern = Pattern.begin("a").where(lambda e: e.letter == "a").followed_by("b").where(lambda e: e.letter == "b")
    matches = CEP.pattern(events.key_by("key"), pattern).in_processing_time()
    found = matches.select(lambda match: (match["a"][0].key, match["b"][0].letter), "key string, letter string")
    out = jobs.folder / "out"
    found.uid("pattern").sink_to(FileSink.for_row_format(str(out), "json").build()).uid("out")
    job = env.execute_async("patterns")
    wait_until(lambda: len(read_json(out)) == 5)  # a checkpoint has committed them, with ten partial matches
    kill_taskmanager(jobs)
    await_attempt(jobs, 2)
    jobs.write_json("2.json", [*letters("k", 10, "b"), *letters("k", 10, "b")])
    wait_until(lambda: len(read_json(out)) >= 15)
    cancel(job)
    keys = [f"m{n}" for n in range(5)] + [f"k{n}" for n in range(10)]
    assert Counter(row["key"] for row in read_json(out)) == Counter(keys)


def letters(key: str, count: int, letter: str) -> list[dict[str, str]]:
    return [{"key": f"{key}{n}", "letter": letter} for n in range(count)]
