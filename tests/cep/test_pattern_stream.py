"""`CEP.pattern` on streams: what it adds to the program, and what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.cep import (
    CEP,
    Pattern,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternSelectFunction,
    PatternStream,
    PatternTimeoutFunction,
)
from penstock.cep.pattern_function import PatternFunction
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.data_stream import DataStream
from penstock.errors import ArgumentError, UsageError
from penstock.testing import Harness, Watermark

Env = StreamExecutionEnvironment
LATE = OutputTag("late")
OVER = OutputTag("over")
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


def pattern() -> Pattern:
    return Pattern.begin("a").where(lambda e: e[0] == "a").followed_by("b").where(lambda e: e[0] == "b").within(10)


def timed(env: Env) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    return env.from_collection([("a", 1)], PAIR).assign_timestamps_and_watermarks(strategy)


def run(stream: DataStream, **settings: Any) -> Harness:
    """The function of an operator on a harness."""
    function = stream._node.payload.function
    assert isinstance(function, PatternFunction)
    made = {"timestamp": lambda e: e[1], "side_outputs": [LATE, OVER], **settings}
    harness = Harness.keyed(function, key=lambda e: 0, **made)
    return harness.feed([("a", 1), ("b", 2), ("a", 3), Watermark(4), ("b", 4)]).finish()


def test_select_makes_one_record_of_each_match(env: Env) -> None:
    found = CEP.pattern(timed(env).key_by(lambda e: e[0]), pattern()).select(lambda m: m["b"][0][1], Types.LONG())
    assert found.get_type() == Types.LONG() and found.get_name() == "CepOperator"
    assert run(found).output == [2]


def test_flat_select_makes_any_number_of_them(env: Env) -> None:
    found = CEP.pattern(timed(env).key_by(lambda e: e[0]), pattern()).flat_select(lambda m: [*m["a"], *m["b"]])
    assert run(found).output == [("a", 1), ("b", 2)]
    assert run(CEP.pattern(timed(env).key_by(lambda e: e[0]), pattern()).flat_select(lambda m: None)).output == []


def test_timed_out_and_late_events_go_to_side_outputs(env: Env) -> None:
    stream = CEP.pattern(timed(env).key_by(lambda e: e[0]), pattern()).side_output_late_data(LATE)
    one = stream.select(lambda m: m["a"], timeout_tag=OVER, timeout_fn=lambda m, time: (m["a"], time))
    harness = run(one)
    assert harness.side_output(LATE) == [("b", 4)] and harness.side_output(OVER) == [([("a", 3)], 13)]
    many = stream.flat_select(lambda m: [], timeout_tag=OVER, timeout_fn=lambda m, time: [1, time])
    assert run(many).side_output(OVER) == [1, 13]


def test_the_function_objects_of_flink_work_too(env: Env) -> None:
    stream = CEP.pattern(timed(env).key_by(lambda e: e[0]), pattern())
    harness = run(stream.select(Select(), timeout_tag=OVER, timeout_fn=Timeout()))
    assert harness.output == ["opened"] and harness.side_output(OVER) == ["opened 13"]
    harness = run(stream.flat_select(FlatSelect(), timeout_tag=OVER, timeout_fn=FlatTimeout()))
    assert harness.output == [1, 2] and harness.side_output(OVER) == [13]


class Select(PatternSelectFunction):
    def open(self, runtime_context: Any) -> None:
        self.word = "opened"

    def select(self, pattern: Any) -> Any:
        return self.word


class Timeout(PatternTimeoutFunction):
    def open(self, runtime_context: Any) -> None:
        self.word = "opened"

    def timeout(self, pattern: Any, timeout_timestamp: int) -> Any:
        return f"{self.word} {timeout_timestamp}"


class FlatSelect(PatternFlatSelectFunction):
    def flat_select(self, pattern: Any) -> Iterator[Any]:
        yield from (1, 2)


class FlatTimeout(PatternFlatTimeoutFunction):
    def timeout(self, pattern: Any, timeout_timestamp: int) -> Iterator[Any]:
        yield timeout_timestamp


def test_a_stream_without_a_key_is_searched_by_one_subtask(env: Env) -> None:
    found = CEP.pattern(timed(env), pattern()).select(lambda m: m["b"])
    assert (found._node.parallelism, found.get_name()) == (1, "GlobalCepOperator")
    assert run(found).output == [[("b", 2)]]


def test_processing_time_needs_no_timestamps(env: Env) -> None:
    plain = env.from_collection([("a", 1)], PAIR).key_by(lambda e: e[0])
    with pytest.raises(UsageError, match=r"have no timestamps; write .assign_timestamps_and_watermarks.*before key_by"):
        CEP.pattern(plain, pattern()).select(str)
    found = CEP.pattern(plain, pattern()).in_processing_time().select(lambda m: m["b"])
    assert run(found, timestamp=None).output == [[("b", 2)], [("b", 4)]]
    assert CEP.pattern(plain, pattern()).in_processing_time().in_event_time()._settings.in_processing_time is False


def test_what_cannot_work_is_refused(env: Env) -> None:
    stream = CEP.pattern(timed(env).key_by(lambda e: e[0]), pattern())
    assert isinstance(stream, PatternStream)
    with pytest.raises(UsageError, match="no event is late in processing time"):
        stream.in_processing_time().side_output_late_data(LATE)
    with pytest.raises(UsageError, match="no event is late in processing time"):
        stream.side_output_late_data(LATE).in_processing_time()
    with pytest.raises(ArgumentError, match=r"side_output_late_data takes an OutputTag, not 'late'"):
        stream.side_output_late_data("late")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="timeout_tag= takes an OutputTag, not None"):
        stream.select(str, timeout_fn=lambda m, time: m)
    with pytest.raises(ArgumentError, match="timeout_fn= takes a function of the match or a PatternTimeoutFunction"):
        stream.select(str, timeout_tag=OVER)
    with pytest.raises(ArgumentError, match=r"select\(\) takes a function.*not the class Select; write Select\(\)"):
        stream.select(Select)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="takes an instance of a subclass of PatternProcessFunction"):
        stream.process(lambda m: m)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"CEP.pattern\(\) takes a stream and a pattern"):
        CEP.pattern(pattern(), pattern())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="can never end"):
        unending = Pattern.begin("a").not_followed_by("b").where(lambda e: True)
        CEP.pattern(timed(env), unending).select(str)
