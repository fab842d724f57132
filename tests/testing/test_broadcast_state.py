"""Rows C4, C6, C7 and B15: broadcast state, on keyed streams and on others."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Time, Types
from penstock.datastream import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    KeyedBroadcastProcessFunction,
    TimeDomain,
)
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.errors import UserFunctionError
from penstock.testing import CHECKPOINT, CRASH, Advance, Broadcast, Harness, Watermark

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
OTHERS = MapStateDescriptor("others")


class Limits(BroadcastProcessFunction):
    """Lets pass what is over the limit of its kind."""

    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Any:
        kind, amount = value
        limit = ctx.get_broadcast_state(RULES).get(kind)
        if limit is not None and amount > limit:
            yield value

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> None:
        kind, limit = value
        rules = ctx.get_broadcast_state(RULES)
        if limit is None:
            rules.remove(kind)
        else:
            rules.put(kind, limit)


def limits(function: Any = None, **settings: Any) -> Harness:
    return Harness.non_keyed(function or Limits(), broadcast=(RULES, OTHERS), **settings)


def test_c4_every_subtask_sees_every_rule() -> None:
    harness = limits(parallelism=3).feed([Broadcast(("a", 5)), *[("a", n) for n in range(9)]])
    assert harness.output == [("a", 6), ("a", 7), ("a", 8)]
    assert harness.operator_state("rules", broadcast=True) == [{"a": 5}] * 3
    harness.feed([Broadcast(("a", None)), ("a", 100)])
    assert harness.operator_state("rules", broadcast=True) == [{}] * 3 and len(harness.output) == 3


def test_c4_two_rules_go_from_two_subtasks_to_four_and_to_one() -> None:
    harness = limits(parallelism=2).feed([Broadcast(("a", 5)), Broadcast(("b", 7)), CHECKPOINT])
    for parallelism in (4, 1, 3, 2):
        harness.rescale(parallelism).feed([CHECKPOINT])
        assert harness.operator_state("rules", broadcast=True) == [{"a": 5, "b": 7}] * parallelism


def test_c4_subtask_i_reads_the_old_copy_i_modulo_the_old_parallelism() -> None:
    harness = limits(parallelism=2)
    for index, subtask in enumerate(harness._host.subtasks()):
        subtask.operator_states["function"].get_broadcast_state(RULES).put("copy", index)
    harness.feed([CHECKPOINT]).rescale(5)
    assert [rules["copy"] for rules in harness.operator_state("rules", broadcast=True)] == [0, 1, 0, 1, 0]
    assert [rules["copy"] for rules in harness.rescale(1).operator_state("rules", broadcast=True)] == [0]


@pytest.mark.parametrize("step", ["put", "put_all", "remove", "clear", "set", "del"])
def test_c4_the_other_side_can_only_read(step: str) -> None:
    class Writes(Limits):
        def process_element(self, value: Any, ctx: Any) -> None:
            rules = ctx.get_broadcast_state(RULES)
            match step:
                case "put":
                    rules.put("a", 1)
                case "put_all":
                    rules.put_all({"a": 1})
                case "remove":
                    rules.remove("a")
                case "clear":
                    rules.clear()
                case "set":
                    rules["a"] = 1
                case "del":
                    del rules["a"]

    with pytest.raises(UserFunctionError, match="'rules' can only be read here"):
        limits(Writes()).feed([("a", 1)])


class Reads(Limits):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        rules = ctx.get_broadcast_state(RULES)
        yield sorted(rules), sorted(rules.values()), sorted(rules.items()), "a" in rules, rules["a"], rules.is_empty()

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        rules = ctx.get_broadcast_state(RULES)
        rules.put_all({"a": 1, "b": 2, "c": 3})
        rules["d"] = 4
        del rules["b"]
        ctx.get_broadcast_state(OTHERS).put((1, "x"), [value])


def test_c4_reading_has_every_form_and_several_states_stay_apart() -> None:
    harness = limits(Reads()).feed(["x"]).feed([Broadcast("z"), CHECKPOINT, CRASH, "y"])
    assert harness.output == [
        ([], [], [], False, None, True),
        (["a", "c", "d"], [1, 3, 4], [("a", 1), ("c", 3), ("d", 4)], True, 1, False),
    ]
    assert harness.operator_state("others", broadcast=True) == [{(1, "x"): ["z"]}]


def test_c4_a_state_that_was_not_named_is_refused_with_flink_s_words() -> None:
    class Asks(Limits):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.get_broadcast_state(MapStateDescriptor("typo"))

    with pytest.raises(UserFunctionError, match="The requested state does not exist. Check for typos"):
        limits(Asks()).feed([("a", 1)])


def test_c4_a_lost_task_takes_its_rules_back() -> None:
    """The retried task brings the same broadcast record again; an increment must count once."""

    class Counts(Limits):
        def process_broadcast_element(self, value: Any, ctx: Any) -> None:
            rules = ctx.get_broadcast_state(RULES)
            rules.put(value, (rules.get(value) or 0) + 1)

    lost = iter([None, None, 1, None, 1])
    harness = limits(Counts(), parallelism=2, lost_after=lambda tries: next(lost, None))
    harness.feed([Broadcast("a")]).feed([Broadcast("a"), Broadcast("b")])
    assert harness.lost_tasks == 2
    assert harness.operator_state("rules", broadcast=True) == [{"a": 2, "b": 1}] * 2


def test_c4_broadcast_and_list_state_of_one_name_are_two_states() -> None:
    class Both(Limits, CheckpointedFunction):
        def initialize_state(self, context: Any) -> None:
            self.list = context.get_operator_state_store().get_list_state(ListStateDescriptor("rules"))

        def process_element(self, value: Any, ctx: Any) -> None:
            self.list.add(value)

        def snapshot_state(self, context: Any) -> None:
            return

    harness = limits(Both()).feed([Broadcast(("a", 5)), "x", CHECKPOINT, CRASH])
    assert harness.operator_state("rules", broadcast=True) == [{"a": 5}]
    assert harness.operator_state("rules") == [["x"]]


def test_c6_what_a_snapshot_holds_does_not_change_with_the_rules() -> None:
    harness = limits().feed([Broadcast(("a", 5))])
    (subtask,) = harness._host.subtasks()
    sealed = subtask.operator_states["function"].seal()
    harness.feed([Broadcast(("a", 6)), Broadcast(("b", 1))])
    assert sealed[0].content == {"a": 5}


def test_c7_a_time_to_live_on_broadcast_state_is_refused() -> None:
    descriptor = MapStateDescriptor("rules")
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    with pytest.raises(UserFunctionError, match="has a time to live, which only keyed state can have"):
        Harness.non_keyed(Limits(), broadcast=(descriptor,))


# ---- keyed

TOTAL = ValueStateDescriptor("total", Types.LONG())


class Totals(KeyedBroadcastProcessFunction):
    """Totals by customer; `reset` sets all of them to a value, `forget` removes those of a rule."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(TOTAL)

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Any:
        factor = ctx.get_broadcast_state(RULES).get("factor")
        self.total.update((self.total.value() or 0) + value[1] * (1 if factor is None else factor))
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 100)
        yield ctx.get_current_key(), self.total.value()

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Iterator[Any]:
        name, number = value
        changed: list[str] = []

        def apply(key: str, state: Any) -> None:
            changed.append(key)
            if number is None:
                state.clear()
            else:
                state.update(number)

        if name == "reset":
            ctx.apply_to_keyed_state(TOTAL, apply)
            yield "reset", sorted(changed)
        else:
            ctx.get_broadcast_state(RULES).put(name, number)

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Any]:
        rules = ctx.get_broadcast_state(RULES)
        assert ctx.time_domain() is TimeDomain.PROCESSING_TIME and ctx.timestamp() == timestamp
        assert ctx.current_processing_time() >= timestamp
        yield "timer", ctx.get_current_key(), self.total.value(), rules.get("factor")


def totals(function: Any = None, **settings: Any) -> Harness:
    return Harness.keyed(function or Totals(), key=lambda row: row[0], broadcast=(RULES,), **settings)


def test_c4_a_keyed_function_has_rules_state_and_timers() -> None:
    harness = totals(parallelism=2).feed([("a", 1), ("b", 2), CHECKPOINT, Broadcast(("factor", 10)), ("a", 3), CRASH])
    assert Counter(harness.output) == Counter([("a", 1), ("b", 2), ("a", 31)])
    harness.feed([Advance(100)])
    assert sorted(harness.output[3:]) == [("timer", "a", 31, 10), ("timer", "b", 2, 10)]
    assert harness.state("total", "a") == 31


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_b15_the_broadcast_side_reaches_the_state_of_every_key(backend: str) -> None:
    harness = totals(parallelism=3, backend=backend).feed([(f"key {n}", n + 1) for n in range(20)])
    harness.feed([Broadcast(("reset", 7)), CHECKPOINT, CRASH])
    reset = [key for word, keys in harness.output if word == "reset" for key in keys]
    assert Counter(reset) == Counter(f"key {n}" for n in range(20))  # each once, over all subtasks
    assert all(harness.state("total", f"key {n}") == 7 for n in range(20))
    harness.feed([Broadcast(("reset", None))]).feed([("key 1", 1)])
    assert harness.output[-1] == ("key 1", 1) and harness.state("total", "key 2") is None


class Twice(Totals):
    """Clears half of the keys and lets the rest see that within one epoch."""

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Iterator[Any]:
        seen: list[str] = []

        def drop(key: str, state: Any) -> None:
            if int(key) % 2:
                state.clear()

        ctx.apply_to_keyed_state(TOTAL, drop)
        ctx.apply_to_keyed_state(TOTAL, lambda key, state: seen.append(key))
        yield seen


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_b15_keys_that_the_epoch_has_cleared_or_made_are_seen_as_they_are(backend: str) -> None:
    harness = totals(Twice(), backend=backend).feed([(str(n), 1) for n in range(6)])
    harness.feed([Broadcast("x")])
    assert sorted(harness.output[-1]) == ["0", "2", "4"]


def test_b15_a_lost_task_takes_back_what_was_done_to_all_keys() -> None:
    lost = iter([None, 2])
    harness = totals(lost_after=lambda tries: next(lost, None)).feed([("a", 1), ("b", 2)])
    harness.feed([Broadcast(("reset", 100)), ("a", 1)])
    assert harness.lost_tasks == 1
    assert (harness.state("total", "a"), harness.state("total", "b")) == (101, 100)


def test_c4_there_is_no_current_key_on_the_broadcast_side() -> None:
    class Wrong(Totals):
        def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
            self.total.update(1)

    with pytest.raises(UserFunctionError, match="where there is no current key"):
        totals(Wrong()).feed([("a", 1)]).feed([Broadcast("x")])


def test_c4_rules_and_keyed_state_are_rescaled_together() -> None:
    rows = [(f"key {n % 50}", n) for n in range(200)]
    harness = totals(parallelism=2).feed([Broadcast(("factor", 2)), *rows, CHECKPOINT])
    for parallelism in (3, 7, 1):
        harness.rescale(parallelism).feed([CHECKPOINT])
        assert harness.operator_state("rules", broadcast=True) == [{"factor": 2}] * parallelism
        for n in range(50):
            assert harness.state("total", f"key {n}") == 2 * sum(v for k, v in rows if k == f"key {n}")


class EventTimer(Totals):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, ctx.time_domain(), ctx.current_watermark()


def test_c4_event_time_timers_fire_when_both_sides_have_come_so_far() -> None:
    harness = totals(EventTimer()).feed([("a", 10), ("b", 30), Watermark(20)])
    assert harness.output == [("a", 10, TimeDomain.EVENT_TIME, 20)]
