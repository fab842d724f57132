"""The file of operator state: what goes in comes out, and damage is an error that names the file."""

import random
import struct
from typing import Any

import pyarrow as pa
import pytest

from penstock.common import Types
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor
from penstock.errors import CheckpointCorruptError
from penstock.model.snapshot import OperatorStateInfo
from penstock.state.operator.operator_file import SealedOperatorState, encode_operator_states, read_operator_states
from penstock.state.operator.operator_states import OperatorStates


def filled() -> OperatorStates:
    states = OperatorStates("uid", 0, (0, 7))
    states.get_list_state(ListStateDescriptor("typed", "a string, b double")).update([("x", 1.0), ("y", None)])
    states.get_list_state(ListStateDescriptor("untyped")).update([1, "a", [1, {"k": (2, None)}]])
    states.get_union_list_state(ListStateDescriptor("union", Types.LONG())).add_all([3, 1, 2])
    rules = states.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LONG()))
    rules.put_all({"a": 1, "none": None})
    untyped = states.get_broadcast_state(MapStateDescriptor("untyped"))
    for key, value in ((1, "int"), (True, "bool"), ((1, 2), [3])):
        untyped.put(key, value)
    states.raw.is_used = True
    states.raw.begin_snapshot()
    states.raw.start_new_partition()
    states.raw.write(b"part")
    states.raw.start_new_key_group(3)
    states.raw.write(b"three")
    states.raw.end_snapshot()
    return states


def restored(data: bytes, infos: list[OperatorStateInfo]) -> OperatorStates:
    states = OperatorStates("uid", 0, (0, 7))
    tables = read_operator_states(data)
    for info in infos:
        states.restore(info, tables[info.operator_uid, info.mode, info.name])
    return states


def contents(states: OperatorStates) -> dict[tuple[str, str], Any]:
    found: dict[tuple[str, str], Any] = {}
    for name, type_info in (("typed", "a string, b double"), ("untyped", None)):
        found["list", name] = states.get_list_state(ListStateDescriptor(name, type_info)).get()
    found["list", "union"] = states.get_union_list_state(ListStateDescriptor("union", Types.LONG())).get()
    rules = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
    for descriptor in (rules, MapStateDescriptor("untyped")):
        found["map", descriptor.name] = list(states.get_broadcast_state(descriptor).items())
    found["raw", ""] = states.raw.get_partitions(), states.raw.get_key_groups()
    return found


def test_sealed_states_are_restored() -> None:
    states = filled()
    sealed = states.seal()
    data = encode_operator_states(sealed)
    back = restored(data, [state.info for state in sealed])
    assert contents(back) == contents(states)
    assert contents(back)["map", "untyped"] == [(1, "int"), (True, "bool"), ((1, 2), [3])]


def test_undeclared_states_are_written_as_they_were_read() -> None:
    sealed = filled().seal()
    carried = restored(encode_operator_states(sealed), [state.info for state in sealed]).seal()
    assert sorted(map(repr, (s.info for s in carried))) == sorted(map(repr, (s.info for s in sealed)))
    assert contents(restored(encode_operator_states(carried), [s.info for s in carried])) == contents(filled())


def test_any_changed_byte_is_found() -> None:
    data = encode_operator_states(filled().seal())
    chance = random.Random(7)
    for _ in range(300):
        position = chance.randrange(len(data))
        damaged = bytearray(data)
        damaged[position] ^= 1 << chance.randrange(8)
        with pytest.raises(CheckpointCorruptError, match="operator state file"):
            read_operator_states(bytes(damaged))


@pytest.mark.parametrize("length", [0, 5, 12, 40, -1])
def test_a_file_that_is_cut_is_found(length: int) -> None:
    data = encode_operator_states(filled().seal())
    with pytest.raises(CheckpointCorruptError):
        read_operator_states(data[:length])


def test_a_count_that_is_not_that_of_the_rows_is_found() -> None:
    info = OperatorStateInfo("uid", "kept", "split", "LONG", None, 3)
    data = encode_operator_states([SealedOperatorState(info, pa.table({"value": pa.array([1, 2], pa.int64())}))])
    with pytest.raises(CheckpointCorruptError, match="expected 3 rows"):
        read_operator_states(data)


def test_an_unknown_mode_is_found() -> None:
    info = OperatorStateInfo("uid", "kept", "sideways", "LONG", None, 0)
    with pytest.raises(CheckpointCorruptError, match="a state of a known mode"):
        read_operator_states(encode_operator_states([SealedOperatorState(info, [])]))


def test_a_huge_table_of_contents_is_refused() -> None:
    with pytest.raises(CheckpointCorruptError, match="table of contents"):
        read_operator_states(struct.pack("<8sII", b"PNOPSTA1", 2**31, 0) + b"x" * 100)
