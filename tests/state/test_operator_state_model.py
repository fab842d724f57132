"""Random changes, lost epochs, seals and restores of operator state, against plain lists and dictionaries."""

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Types
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor
from penstock.state.operator.operator_file import encode_operator_states, read_operator_states
from penstock.state.operator.operator_states import OperatorStates

LIST = ListStateDescriptor("list")
UNION = ListStateDescriptor("union", Types.LONG())
MAP = MapStateDescriptor("map", None, Types.LIST(Types.LONG()))

VALUES = st.one_of(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=3), st.text("ab", max_size=2))
KEYS = st.one_of(st.integers(0, 2), st.booleans(), st.text("ab", max_size=1))
STEPS = st.one_of(
    st.tuples(st.sampled_from(["add", "update"]), st.lists(VALUES, max_size=3)),
    st.tuples(st.just("union"), st.lists(st.integers(0, 9), max_size=3)),
    st.tuples(st.just("put"), st.tuples(KEYS, st.lists(st.integers(0, 9), max_size=2))),
    st.tuples(st.just("remove"), KEYS),
    st.tuples(st.sampled_from(["clear", "epoch", "lost", "seal", "restore"]), st.none()),
)


class Model:
    """What the states must hold; keys of the map with their class, as 1 and True are two."""

    def __init__(self) -> None:
        self.list: list[Any] = []
        self.union: list[int] = []
        self.map: dict[Any, list[int]] = {}

    def copy(self) -> "Model":
        return deepcopy(self)


def change(states: OperatorStates, model: Model, step: str, value: Any) -> None:
    elements, entries = states.get_list_state(LIST), states.get_broadcast_state(MAP)
    if step == "add":
        elements.add_all(value)
        model.list += deepcopy(value)
    elif step == "update":
        elements.update(value)
        model.list = deepcopy(value)
    elif step == "union":
        states.get_union_list_state(UNION).update(value)
        model.union = list(value)
    elif step == "put":
        entries.put(*value)
        model.map[type(value[0]), value[0]] = list(value[1])
    elif step == "remove":
        entries.remove(value)
        model.map.pop((type(value), value), None)
    elif step == "clear":
        entries.clear()
        model.map.clear()


def scribble(states: OperatorStates, given_value: Any) -> None:
    """Change everything that the function can get hold of; no state may notice."""
    reachable = [given_value, *states.get_list_state(LIST).get(), *states.get_broadcast_state(MAP).values()]
    for value in reachable:
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, list):
                part.append(99)


def check(states: OperatorStates, model: Model) -> None:
    assert states.get_list_state(LIST).get() == model.list
    assert states.get_union_list_state(UNION).get() == model.union
    assert {(type(key), key): value for key, value in states.get_broadcast_state(MAP).items()} == model.map


def restored(sealed: Any) -> OperatorStates:
    tables = read_operator_states(encode_operator_states(sealed))
    states = OperatorStates("uid", 0, None)
    for state in sealed:
        states.restore(state.info, tables["uid", state.info.mode, state.info.name])
    return states


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_c6_states_follow_the_model_through_lost_epochs_seals_and_restores(steps: list[tuple[str, Any]]) -> None:
    states, model = OperatorStates("uid", 0, None), Model()
    states.get_union_list_state(UNION)
    before = model.copy()
    sealed: list[tuple[Any, Model]] = []
    states.begin_epoch()
    for step, value in steps:
        if step == "lost" and not states.epochs:
            states.roll_back()
            model = before.copy()
        elif step in ("epoch", "lost"):
            states.finish_epoch()
            states.begin_epoch()
            before = model.copy()
        elif step == "seal":
            sealed.append((states.seal(), model.copy()))
        elif step == "restore":
            states = restored(states.seal())
            before = model.copy()
            check(states, model)
            states.begin_epoch()
        else:
            change(states, model, step, value)
            scribble(states, value)
        check(states, model)
    for seal, then in sealed:  # written long after everything has changed
        check(restored(seal), then)
