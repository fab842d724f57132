from datetime import datetime, timedelta, timezone

import pytest

from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK, Duration, Instant, Time, TimeDomain


def test_times_are_milliseconds():
    spans = [Time.milliseconds(5), Time.seconds(5), Time.minutes(5), Time.hours(5), Time.days(5)]
    assert [span.to_milliseconds() for span in spans] == [5, 5_000, 300_000, 18_000_000, 432_000_000]
    assert Time.seconds(60) == Time.minutes(1) and Time.seconds(1) < Time.minutes(1)


def test_durations_are_nanoseconds():
    spans = [Duration.of_days(1), Duration.of_hours(1), Duration.of_minutes(1), Duration.of_seconds(1)]
    assert [span.to_milliseconds() for span in spans] == [86_400_000, 3_600_000, 60_000, 1_000]
    assert Duration.of_seconds(1, 500_000_000) == Duration.of_millis(1500) == Duration.of(timedelta(seconds=1.5))
    assert Duration.of_nanos(1_999_999).to_milliseconds() == 1


def test_an_instant_is_seconds_and_nanoseconds():
    assert Instant.of_epoch_milli(-1) == Instant(-1, 999_000_000)
    assert Instant.of_epoch_milli(-1).to_epoch_milli() == -1
    assert Instant.of_epoch_micro(1_000_001).to_epoch_micro() == 1_000_001
    assert Instant(1, 1_999).to_epoch_micro() == 1_000_001
    assert Instant(86_400).to_datetime() == datetime(1970, 1, 2, tzinfo=timezone.utc)
    with pytest.raises(ValueError, match="nanos"):
        Instant(0, 1_000_000_000)


def test_watermarks_span_64_bits():
    assert (MIN_WATERMARK, MAX_WATERMARK) == (-(2**63), 2**63 - 1)
    assert [domain.name for domain in TimeDomain] == ["EVENT_TIME", "PROCESSING_TIME"]
