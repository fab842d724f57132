"""Watermarks of a source with partitions: the slowest one counts, unless it is idle."""

from penstock.graph.job_graph import WatermarkGenerator, partition_key
from penstock.jobmanager.attempt.partition_progress import PartitionProgress

A, B = partition_key("u", "t/0"), partition_key("u", "t/1")
STRICT = WatermarkGenerator("u", 0, -1, None, True)
IDLE = WatermarkGenerator("u", 0, -1, 100, True)


def test_the_slowest_partition_holds_back_the_others() -> None:
    progress = PartitionProgress(0)
    assert progress.timestamp(STRICT, {}, 0) is None
    assert progress.timestamp(STRICT, {A: 50, B: 7, partition_key("other", "t/1"): 1}, 10**9) == 7


def test_an_idle_partition_holds_back_nobody_until_it_has_records_again() -> None:
    progress = PartitionProgress(0)
    progress.advanced(A, 1_000)
    progress.advanced(B, 1_050)
    assert progress.timestamp(IDLE, {A: 5, B: 50}, 1_099) == 5
    assert progress.timestamp(IDLE, {A: 5, B: 50}, 1_100) == 50
    progress.advanced(A, 1_120)
    assert progress.timestamp(IDLE, {A: 6, B: 50}, 1_130) == 6


def test_if_all_are_idle_the_watermark_stays() -> None:
    assert PartitionProgress(0).timestamp(IDLE, {A: 5, B: 50}, 100) is None


def test_a_restored_partition_is_not_idle_at_once() -> None:
    assert PartitionProgress(5_000).timestamp(IDLE, {A: 5, B: 50}, 5_050) == 5


def test_a_source_without_partitions_follows_its_newest_record() -> None:
    generator = WatermarkGenerator("u", 0, -1)
    assert PartitionProgress(0).timestamp(generator, {"u": 9}, 0) == 9


def test_a_source_is_idle_if_all_its_partitions_are() -> None:
    progress = PartitionProgress(0)
    progress.advanced(A, 1_000)
    progress.advanced(B, 1_050)
    newest = {A: 5, B: 50}
    assert [progress.is_idle(IDLE, newest, now) for now in (1_100, 1_149, 1_150)] == [False, False, True]
    assert not progress.is_idle(STRICT, newest, 10**9)


def test_a_source_without_records_is_idle_after_its_time() -> None:
    progress = PartitionProgress(1_000)
    for generator in (IDLE, WatermarkGenerator("u", 0, -1, 100)):
        assert not progress.is_idle(generator, {}, 1_099) and progress.is_idle(generator, {}, 1_100)
