"""A pattern of events on real Spark, with events of one key in many epochs."""

from collections import Counter
from typing import Any

from penstock.cep import CEP, AfterMatchSkipStrategy, Pattern
from penstock.common import Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from tests.spark.jobs import Jobs, collect


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
