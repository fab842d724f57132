"""Steady rates, row counts, medians and ratios."""

import pytest

from bench.errors import RoundFailedError
from bench.figures import Batch, counts_match, parse_batches, ratios, steady_rate, summarise
from tests.bench.runs import make_run


def test_the_first_batch_is_warm_up_and_pauses_between_batches_count() -> None:
    batches = [Batch(100, 0, 5_000), Batch(100, 5_000, 6_000), Batch(100, 6_500, 7_000)]
    assert steady_rate(batches, warmup_batches=1) == 100.0


def test_batches_are_taken_in_the_order_in_which_they_ended() -> None:
    batches = [Batch(300, 2_000, 3_000), Batch(100, 0, 2_000)]
    assert steady_rate(batches, warmup_batches=1) == 300.0


def test_without_warm_up_the_clock_starts_with_the_first_record() -> None:
    side_by_side = [Batch(100, 1_000, 2_000), Batch(300, 1_500, 3_000)]
    assert steady_rate(side_by_side, warmup_batches=0) == 200.0


def test_an_empty_batch_at_the_end_costs_time() -> None:
    batches = [Batch(100, 0, 1_000), Batch(100, 1_000, 2_000), Batch(0, 2_000, 3_000)]
    assert steady_rate(batches, warmup_batches=1) == 50.0


@pytest.mark.parametrize("batches", [[], [Batch(100, 0, 1_000)]])
def test_a_round_with_nothing_but_warm_up_has_no_rate(batches: list[Batch]) -> None:
    with pytest.raises(RoundFailedError, match="warm-up"):
        steady_rate(batches, warmup_batches=1)


def test_a_clock_that_stands_still_is_an_error_and_not_infinite_speed() -> None:
    with pytest.raises(RoundFailedError, match="took 0 ms"):
        steady_rate([Batch(1, 5, 5)], warmup_batches=0)


def test_counts_match_when_each_row_came_in_and_out_once() -> None:
    assert counts_match([Batch(3, 0, 1, rows_out=1), Batch(2, 0, 1, rows_out=4)], expected_rows=5)


def test_counts_do_not_match_when_a_row_is_lost_or_doubled_on_either_side() -> None:
    assert not counts_match([Batch(4, 0, 1)], expected_rows=5)
    assert not counts_match([Batch(6, 0, 1)], expected_rows=5)
    assert not counts_match([Batch(5, 0, 1, rows_out=4)], expected_rows=5)


def test_an_engine_that_cannot_count_its_output_is_checked_by_its_input() -> None:
    assert counts_match([Batch(5, 0, 1)], expected_rows=5)


def test_a_line_that_was_cut_off_by_a_kill_is_left_out() -> None:
    text = '{"rows": 5, "rows_out": 5, "started_ms": 1, "finished_ms": 2.5}\n{"rows": 7, "star'
    assert parse_batches(text) == [Batch(5, 1, 2.5, rows_out=5)]


def test_the_summary_is_the_median_of_each_figure_by_itself() -> None:
    summary = summarise([make_run(10.0, peak_rss_mb=300.0), make_run(30.0), make_run(20.0, peak_rss_mb=200.0)])
    assert (summary.rows_per_s, summary.peak_rss_mb, len(summary.runs)) == (20.0, 200.0, 3)


def test_ratios_say_how_many_times_faster_penstock_is() -> None:
    summaries = {"penstock": summarise([make_run(300.0)]), "bytewax": summarise([make_run(100.0)])}
    assert ratios(summaries) == {"bytewax": 3.0}
    del summaries["penstock"]
    assert ratios(summaries) == {}
