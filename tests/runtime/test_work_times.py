"""Where the time of a subtask's epoch goes, and the rows of its operators."""

from typing import Any

from penstock.datastream import KeyedProcessFunction
from penstock.model.subtask_work import PassedRows
from penstock.runtime.work_times import WorkTimes
from penstock.testing import ManualClock
from tests.runtime.subtasks import Tasks, keyed_stage


def test_functions_have_what_no_other_part_has() -> None:
    clock = ManualClock()
    times = WorkTimes(clock)
    times.begin()
    rows = []

    def arriving() -> Any:
        for row in (1, 2):
            clock.advance(30)
            yield row
        clock.advance(5)

    for row in times.waiting_for(arriving()):
        rows.append(row)
        clock.advance(100)
        with times.measured("state"):
            clock.advance(10)
    with times.measured("sealing"):
        clock.advance(7)
    assert rows == [1, 2]
    assert times.microseconds() == (200_000, 20_000, 7_000, 0)


def test_output_that_is_handed_on_after_a_run_belongs_to_the_next_one() -> None:
    clock = ManualClock()
    times = WorkTimes(clock)
    times.begin()
    with times.measured("handing"):
        clock.advance(40)
    times.begin()
    assert times.microseconds() == (0, 0, 0, 40_000)
    times.begin()
    assert times.microseconds()[-1] == 0


class Twice(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value
        yield value


def test_a_report_has_the_rows_of_every_input_and_operator() -> None:
    tasks = Tasks(keyed_stage(Twice()))
    tasks.run([("a", 1), ("a", 2), ("a", 3)])
    work = tasks.told.reports[-1].work
    assert work.inputs == [3]
    assert work.operators == [PassedRows(3, 6)]
    assert work.began_ms > 0
