"""The interval join on the harness: what is kept, for how long, and what a crash or a restore leaves of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.datastream import OutputTag, ProcessJoinFunction
from penstock.errors import UsageError, UserFunctionError
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.testing import CHECKPOINT, CRASH, Harness, Second, Watermark

LATE = OutputTag("late")
ASIDE = OutputTag("aside")


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left, right


def harness(bounds: tuple[int, int] = (-5, 5), function: Any = None, **settings: Any) -> Harness:
    settings = {"key": lambda r: r[0], "timestamp": lambda r: r[1], "between": bounds, **settings}
    return Harness.keyed(function or Pairs(), **settings)


def test_bounds_are_inclusive_and_counted_from_the_first_stream() -> None:
    found = harness((-2, 3)).feed([("a", 10), *[Second(("a", time)) for time in range(5, 16)], Second(("b", 10))])
    assert [right[1] for _, right in found.output] == [8, 9, 10, 11, 12, 13]


def test_rows_are_kept_until_the_watermark_has_passed_their_last_partner() -> None:
    run = harness((-2, 3)).feed([("a", 10), Second(("a", 20)), Watermark(12)])
    assert run.state("LEFT_BUFFER", "a") == {10: [("a", 10)]}
    run.feed([Watermark(13)])
    assert not run.state("LEFT_BUFFER", "a") and run.state("RIGHT_BUFFER", "a") == {20: [("a", 20)]}
    run.feed([Watermark(22)])
    assert not run.state("RIGHT_BUFFER", "a")


def test_records_behind_the_watermark_are_late_and_join_nothing() -> None:
    run = harness(late_data=LATE).feed([("a", 10), Watermark(10), Second(("a", 9)), Second(("a", 10)), ("a", 8)])
    assert run.output == [(("a", 10), ("a", 10))]
    assert sorted(run.side_output(LATE)) == [("a", 8), ("a", 9)]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_buffered_row_is_joined_once_after_a_crash_and_after_a_restore_elsewhere(
    backend: str, tmp_path: Path
) -> None:
    run = harness(parallelism=2, backend=backend).feed([("a", 1), ("b", 1), CHECKPOINT, ("a", 2), CRASH])
    run.feed([Second(("a", 3)), CRASH])
    assert sorted(run.output) == [(("a", 1), ("a", 3)), (("a", 2), ("a", 3))]
    path = run.savepoint(tmp_path, then="stop")
    other = "rocksdb" if backend == "hashmap" else "hashmap"
    later = harness(parallelism=3, backend=other, start=StartOptions(path))
    later.feed([CHECKPOINT, Second(("b", 4)), ("a", 5), CRASH])
    assert sorted(later.output) == [(("a", 5), ("a", 3)), (("b", 1), ("b", 4))]


def test_the_function_has_state_side_outputs_and_named_errors() -> None:
    class Aside(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
            if right[1] == 3:
                return "text"
            return [(ASIDE, (left, ctx.get_timestamp()))]

    run = harness(function=Aside(), side_outputs=[ASIDE]).feed([("a", 1), Second(("a", 2))])
    assert run.side_output(ASIDE) == [(("a", 1), 2)] and run.output == []
    with pytest.raises(UserFunctionError, match=r"process_element\(\) returned 'text'"):
        run.feed([Second(("a", 3))])


def test_what_is_missing_is_said() -> None:
    with pytest.raises(UsageError, match="needs between="):
        Harness.keyed(Pairs(), key=str)
    with pytest.raises(UserFunctionError, match="a record of an interval join has no timestamp"):
        harness(timestamp=None).feed([("a", 1)])
