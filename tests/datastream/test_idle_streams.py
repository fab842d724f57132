"""`with_idleness` on several streams: one without records holds back the others only for a while."""

import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.common import Duration, Types, WatermarkStrategy
from penstock.datastream import KeyedCoProcessFunction, OutputTag, ProcessWindowFunction, StreamExecutionEnvironment
from penstock.datastream.data_stream import DataStream
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.graph.job_graph import JobGraph
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.graph.stream_graph import SinkSpec
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.state.backend.backend_registry import find_backend
from penstock.state.backend.backend_settings import BackendSettings
from penstock.testing import CHECKPOINT, CRASH, Advance, Harness, ManualClock, Second
from penstock.testing.harness_options import HarnessOptions
from tests.testing.window_oracle import Case, Clock, Event, WindowOracle

Env = StreamExecutionEnvironment
LATE = OutputTag("late")
BEFORE = -(2**63)
EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
DELAY_MS, IDLE_MS = 2, 50


def two_streams(env: Env) -> list[DataStream]:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DELAY_MS))
    timed = strategy.with_idleness(Duration.of_millis(IDLE_MS)).with_timestamp_assigner(lambda event, _: event[1])
    streams = [env.from_collection([("x", 0, 0)], EVENT) for _ in range(2)]
    return [stream.assign_timestamps_and_watermarks(timed) for stream in streams]


def graph_of(results: DataStream, parallelism: int, tags: Sequence[OutputTag] = ()) -> JobGraph:
    """The program behind a stream; the stream and its side outputs go to the harness."""
    graph = results._environment._graph
    for stream in (results, *map(results.get_side_output, tags)):
        graph.add("sink", "Spark", [stream._node.id], SinkSpec("spark", print), stream._node.output_type)
    return build_job_graph(graph, GraphSettings(parallelism, 8))


class Watermarks(KeyedCoProcessFunction):
    """The watermark that each record meets."""

    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value[1], ctx.timer_service().current_watermark()

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return self.process_element1(value, ctx)


def event(time: int) -> tuple[str, int, int]:
    return "k", time, 0


def test_an_idle_stream_holds_back_the_other_until_its_time_is_over_and_again_when_it_is_back(env: Env) -> None:
    keyed = [stream.key_by(lambda value: value[0], Types.STRING()) for stream in two_streams(env)]
    harness = Harness(graph_of(keyed[0].connect(keyed[1]).process(Watermarks()), 2))

    def met(*records: Any) -> list[Any]:
        seen = len(harness.output)
        harness.feed(list(records)).run_empty_epochs(1)
        return harness.output[seen:]

    met(event(100), Second(event(10)))
    assert met(event(200)) == [(200, 10 - DELAY_MS - 1)]
    met(Advance(IDLE_MS - 1))
    met(event(300))
    met(Advance(1))
    assert met(event(400)) == [(400, 300 - DELAY_MS - 1)]  # the second stream has been idle for its time
    met(Second(event(390)))
    assert met(event(500)) == [(500, 400 - DELAY_MS - 1)]  # it is back, and time does not go back
    met(Advance(IDLE_MS))  # both are idle: time stands still
    assert met(event(600)) == [(600, 400 - DELAY_MS - 1)]


def test_windows_fire_when_a_stream_becomes_idle_without_another_record(env: Env) -> None:
    first, second = two_streams(env)
    windows = first.union(second).key_by(lambda value: value[0], Types.STRING()).window(TumblingEventTimeWindows(7, 0))
    harness = Harness(graph_of(windows.process(Contents()), 1))
    harness.feed([event(3), event(30)]).run_empty_epochs(1)
    assert harness.output == []  # nothing is known of the second stream
    assert len(harness.feed([Advance(IDLE_MS - 1), event(31), Advance(1)]).output) == 1


class Contents(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, context.window().start, context.window().end, tuple(sorted(elements))


@st.composite
def histories(draw: st.DrawFn) -> list[Any]:
    """Groups of events of either stream; time that passes, crashes, and another parallelism and backend."""
    steps: list[Any] = []
    base = 0
    for _ in range(draw(st.integers(1, 8))):
        base += draw(st.sampled_from([0, 3, 10, 30]))
        times = st.integers(base - 8, base + 8)
        events = st.builds(Event, st.sampled_from("abc"), times, st.integers(0, 9))
        sides = st.sampled_from(draw(st.sampled_from([[1], [2], [1, 2]])))  # often one stream alone
        steps.append(draw(st.lists(st.tuples(sides, events), max_size=5)))
        steps.append(draw(st.sampled_from([Advance(20), Advance(IDLE_MS), Advance(IDLE_MS), "crash", "savepoint"])))
    return steps


class TwoWatermarks:
    """The watermark behind the union of two streams, by the rules alone."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.newest = [BEFORE, BEFORE]
        self.advanced = [now, now]
        self.watermark = BEFORE

    def see(self, events: list[tuple[int, Event]]) -> None:
        for side in (0, 1):
            newest = max((event.time for number, event in events if number == side + 1), default=BEFORE)
            if newest > self.newest[side]:
                self.newest[side], self.advanced[side] = newest, self.now
        self.move()

    def move(self) -> None:
        active = [side for side in (0, 1) if self.now - self.advanced[side] < IDLE_MS]
        if active:
            lowest = min(self.newest[side] - DELAY_MS - 1 for side in active)
            self.watermark = max(self.watermark, lowest)

    def restart(self) -> None:
        """Nobody knows for how long a stream was idle before."""
        self.advanced = [self.now, self.now]


def expected(steps: list[Any], now: int) -> WindowOracle:
    time, oracle = TwoWatermarks(now), WindowOracle(Case("tumbling", True, 7))
    for step in steps:
        if isinstance(step, list):
            oracle.run(event for _, event in step)
            time.see(step)
        elif isinstance(step, Advance):
            time.now += step.milliseconds
            time.move()
        else:
            time.restart()
            time.move()
        oracle.run([Clock(time.watermark, is_event_time=True)])
    return oracle.end()


def run(graphs: list[JobGraph], steps: list[Any]) -> tuple[Counter[Any], Counter[Any]]:
    """What the harness emits, and what was too late. Each step is followed by an epoch that makes its watermark."""
    backends = ["hashmap", "rocksdb"]
    harness = Harness(graphs[0])
    results: Counter[Any] = Counter()
    late: Counter[Any] = Counter()

    def collect() -> None:
        results.update(harness.output)
        late.update(harness.side_output(LATE))

    for step in steps:
        if isinstance(step, list):
            harness.feed([tuple(event) if side == 1 else Second(tuple(event)) for side, event in step])
        elif isinstance(step, Advance):
            harness.feed([step])
        elif step == "crash":
            harness.feed([CHECKPOINT, CRASH])
        else:
            backends.reverse()
            graphs = graphs[::-1]
            with tempfile.TemporaryDirectory() as folder:
                path = harness.savepoint(folder, then="stop")
                collect()
                backend = BackendSettings(find_backend(backends[0])())
                options = HarnessOptions(clock=harness.clock, backend=backend, start=StartOptions(path))
                harness = Harness(graphs[0], options)
                harness.feed([CHECKPOINT])
        harness.run_empty_epochs(1)
    harness.finish()
    collect()
    return results, late


def test_windows_over_streams_that_are_idle_at_times_give_what_the_oracle_gives(env: Env) -> None:
    first, second = two_streams(env)
    windows = first.union(second).key_by(lambda value: value[0], Types.STRING()).window(TumblingEventTimeWindows(7, 0))
    results = windows.side_output_late_data(LATE).process(Contents()).uid("windows")
    graphs = [graph_of(results, 2, [LATE])]
    graphs.append(build_job_graph(env._graph, GraphSettings(3, 8)))

    @given(histories())
    def many(steps: list[Any]) -> None:
        oracle = expected(steps, ManualClock().now_ms())
        found, late = run(graphs, steps)
        assert found == Counter(oracle.results)
        assert late == Counter(oracle.late)

    many()
