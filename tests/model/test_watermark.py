import pickle

import pytest

from penstock.errors import UsageError
from penstock.model.time import Duration
from penstock.model.watermark import TimestampAssigner, WatermarkStrategy


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return int(value[1])


def test_strategies_say_how_late_records_may_come():
    assert WatermarkStrategy.for_monotonous_timestamps().out_of_orderness_ms == 0
    assert WatermarkStrategy.no_watermarks().out_of_orderness_ms is None
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    assert (bounded.out_of_orderness_ms, bounded.idle_after_ms) == (5000, None)
    assert bounded.with_idleness(Duration.of_minutes(1)).idle_after_ms == 60_000
    assert bounded.with_watermark_alignment("g", Duration.of_seconds(1)) == bounded


def test_timestamps_come_from_an_assigner_or_a_function():
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    assert strategy.timestamp_assigner is None
    by_class = strategy.with_timestamp_assigner(Second()).timestamp_assigner
    by_function = strategy.with_timestamp_assigner(lambda value, former: value[1]).timestamp_assigner
    for assigner in (by_class, by_function):
        assert assigner is not None and assigner.extract_timestamp(("a", 7), -1) == 7
    assert pickle.loads(pickle.dumps(strategy.with_idleness(Duration.of_seconds(1)))).idle_after_ms == 1000


def test_impossible_strategies_are_refused():
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    with pytest.raises(UsageError, match="0 or more"):
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(-1))
    with pytest.raises(UsageError, match="positive"):
        strategy.with_idleness(Duration.of_seconds(0))
    with pytest.raises(TypeError, match="TimestampAssigner"):
        strategy.with_timestamp_assigner(5)  # type: ignore[arg-type]
