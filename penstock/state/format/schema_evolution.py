"""How the schema of a state may change between a snapshot and the program that restores it (features O11, O12).

A row may gain fields, lose fields and reorder them; a number may become a type that represents all of its values
exactly; both at any depth: in rows, tuples, lists, values of maps, entries with a stamp. A new field reads as None. A
time to live may be added or removed (D14). Anything else is refused, or needs a descriptor's `migrate` function. Keys
never change: neither those of the stream, whose hashes would differ, nor namespaces, nor those of a map.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from penstock.errors import IncompatibleStateError
from penstock.model.descriptors import Migration
from penstock.model.snapshot import OperatorStateInfo, StateTableInfo
from penstock.model.type_information import TypeInformation, list_of, map_of, parse_type, row_of, tuple_of
from penstock.state.ttl.stamps import with_ttl, without_ttl

StateInfo = StateTableInfo | OperatorStateInfo
PICKLE_DISABLED = "PICKLE_DISABLED"

SAME, EVOLVES, MIGRATES, REFUSED = "same", "evolves", "migrates", "refused"

_INTEGERS = ("BYTE", "SHORT", "INT", "LONG", "BIG_INT")
_EXACT_FLOATS = {"FLOAT": ("BYTE", "SHORT"), "DOUBLE": ("BYTE", "SHORT", "INT", "FLOAT")}
"""Floating point types, and the types whose values they represent exactly. A DOUBLE has 53 bits, a LONG 63."""
_VALUE_KINDS = ("value", "reducing", "aggregating")
"""Kinds that are stored the same way: one value per key."""
_KIND_TEXT = {"split": "list", "union": "union list", "raw_keyed": "raw keyed"}


@dataclass(frozen=True)
class StateChange:
    """What a restore does with a saved state."""

    outcome: str
    """"same", "evolves", "migrates" (the descriptor's `migrate` function is called) or "refused"."""
    lines: tuple[str, ...] = ()
    """The changes as text: "field `country` added"."""
    reason: str = ""
    """Why it is refused, or why `migrate` is needed."""

    @property
    def is_refused(self) -> bool:
        """The state cannot be restored by this program."""
        return self.outcome == REFUSED


def compare_states(saved: StateInfo, declared: StateInfo, migration: Migration | None = None) -> StateChange:
    """What a restore does with a saved state that the program declares in this way.

    `migration` is that of the descriptor. Counts of operator states are ignored.
    """
    problem = _other_shape(saved, declared)
    if problem is not None:
        return StateChange(REFUSED, reason=problem)
    old, new = plain_type(saved), plain_type(declared)
    found = list(_differences(old, new, ""))
    lines = tuple(line.text for line in found if not line.is_problem)
    reason = "; ".join(line.text for line in found if line.is_problem)
    if kind_of(saved) != kind_of(declared):
        reason = reason or f"a {kind_of(saved)} state is not a {kind_of(declared)} state"
    ttl_line = _ttl_line(saved, declared)
    if not reason:
        lines += ttl_line
        return StateChange(EVOLVES if lines else SAME, lines)
    if migration is None and old.uses_pickle and not new.uses_pickle:
        return StateChange(REFUSED, reason=f"{PICKLE_DISABLED}: it was saved as pickles, which are not read; {reason}")
    if migration is None:
        return StateChange(REFUSED, reason=reason)
    if old.uses_pickle and not migration.from_pickle:
        hint = "its values are pickles, which migrate reads only with from_pickle=True"
        return StateChange(REFUSED, reason=f"{reason}; {hint}")
    return StateChange(MIGRATES, (f"migrated from {old.text} to {new.text} by the program", *ttl_line), reason)


def incompatible(saved: StateInfo, declared: StateInfo, reason: str) -> IncompatibleStateError:
    """The error for a state that cannot be restored by this program."""
    was, now = state_text(saved), state_text(declared)
    if _other_keys(saved, declared):
        was, now = f"{was} keyed by {_keys_text(saved)}", f"{now} keyed by {_keys_text(declared)}"
    return IncompatibleStateError(saved.operator_uid, saved.name, was, now, reason, _way_out(saved, declared))


def common_info(first: StateTableInfo, second: StateTableInfo) -> StateTableInfo:
    """A description that fits both tables, if parts of one state were saved with different types; nothing is lost."""
    merged = _common_of(first, second)
    plain = msgspec.structs.replace(without_ttl(first), value_type=merged.text)
    return with_ttl(plain) if first.ttl or second.ttl else plain


def common_operator_info(first: OperatorStateInfo, second: OperatorStateInfo) -> OperatorStateInfo:
    """The same for operator state."""
    return msgspec.structs.replace(first, value_type=_common_of(first, second).text)


def _common_of(first: StateInfo, second: StateInfo) -> TypeInformation:
    merged = common_type(plain_type(first), plain_type(second))
    if _other_shape(first, second) is None and kind_of(first) == kind_of(second) and merged is not None:
        return merged
    raise incompatible(
        first,
        second,
        "parts of it were saved with types that do not fit together: some subtasks had changed it and others had not "
        "declared it yet; restore with the old parallelism, and declare the state in open()",
    )


def common_type(first: TypeInformation, second: TypeInformation) -> TypeInformation | None:
    """The smallest type that represents the values of both exactly; None if there is none."""
    if first == second or widens(second, first):
        return first
    if widens(first, second):
        return second
    if first.name != second.name or first.name not in ("ROW", "TUPLE", "LIST", "MAP"):
        return None
    if first.names is not None and second.names is not None:
        return _common_row(first, second)
    children = [common_type(a, b) for a, b in zip(first.children, second.children, strict=False)]
    found = [child for child in children if child is not None]
    if len(found) != max(len(first.children), len(second.children)):
        return None
    if first.name == "MAP":
        return map_of(found[0], found[1]) if first.children[0] == second.children[0] else None
    return tuple_of(found) if first.name == "TUPLE" else list_of(found[0])


def _common_row(first: TypeInformation, second: TypeInformation) -> TypeInformation | None:
    fields: dict[str, TypeInformation] = dict(zip(first.names or (), first.children, strict=True))
    for name, child in zip(second.names or (), second.children, strict=True):
        merged = common_type(fields.get(name, child), child)
        if merged is None:
            return None
        fields[name] = merged
    return row_of(list(fields), list(fields.values()))


def widens(old: TypeInformation, new: TypeInformation) -> bool:
    """Whether `new` is another numeric type that represents every value of `old` exactly."""
    if old.name in _INTEGERS and new.name in _INTEGERS:
        return _INTEGERS.index(old.name) < _INTEGERS.index(new.name)
    if old.name == new.name == "DECIMAL":
        scale, digits = new.arrow.scale - old.arrow.scale, new.arrow.precision - old.arrow.precision
        return old != new and 0 <= scale <= digits
    if new.name == "BIG_DEC":
        return old.name == "DECIMAL"
    return old.name in _EXACT_FLOATS.get(new.name, ())


def plain_type(info: StateInfo) -> TypeInformation:
    """The type of what the user stores, without stamps."""
    return parse_type(without_ttl(info).value_type if isinstance(info, StateTableInfo) else info.value_type)


def kind_of(info: StateInfo) -> str:
    """value, list, map …; of operator state list, union list, broadcast, raw."""
    return info.kind if isinstance(info, StateTableInfo) else _KIND_TEXT.get(info.mode, info.mode)


def state_text(info: StateInfo) -> str:
    """Kind and types of a state as text."""
    key = "" if info.map_key_type is None else f"{info.map_key_type} to "
    text = f"{kind_of(info)} state of {key}{plain_type(info).text}"
    if isinstance(info, StateTableInfo):
        text += f" in namespaces of {info.namespace}" if info.namespace is not None else ""
        text += " with a time to live" if info.ttl else ""
    return text


def _other_shape(saved: StateInfo, declared: StateInfo) -> str | None:
    """Why neither a rule nor a function can convert one to the other; None if one can."""
    if isinstance(saved, StateTableInfo) and isinstance(declared, StateTableInfo):
        if saved.key_types != declared.key_types:
            change = f"{_keys_text(saved)} to {_keys_text(declared)}"
            return f"the keys of its stream change from {change}, and with them the key groups"
        if saved.namespace != declared.namespace:
            return f"its namespaces change from {saved.namespace or 'none'} to {declared.namespace or 'none'}"
        alike = saved.kind == declared.kind or {saved.kind, declared.kind} <= set(_VALUE_KINDS)
    elif isinstance(saved, OperatorStateInfo) and isinstance(declared, OperatorStateInfo):
        alike = saved.mode == declared.mode
    else:
        return "keyed state and operator state are two things"
    if not alike:
        return f"a {kind_of(saved)} state is not a {kind_of(declared)} state"
    if saved.map_key_type != declared.map_key_type:
        return f"the keys of the map change from {saved.map_key_type} to {declared.map_key_type}"
    return None


def _other_keys(saved: StateInfo, declared: StateInfo) -> bool:
    return _keys_text(saved) != _keys_text(declared)


def _keys_text(info: StateInfo) -> str:
    return ", ".join(info.key_types) if isinstance(info, StateTableInfo) else ""


def _ttl_line(saved: StateInfo, declared: StateInfo) -> tuple[str, ...]:
    before = isinstance(saved, StateTableInfo) and saved.ttl
    after = isinstance(declared, StateTableInfo) and declared.ttl
    if before == after:
        return ()
    return ("time to live added: entries live until they are written",) if after else ("time to live removed",)


class _Difference(NamedTuple):
    text: str
    is_problem: bool = False


def _differences(old: TypeInformation, new: TypeInformation, path: str) -> Iterator[_Difference]:
    """Differences, outermost first. Paths: `address.zip`, `items[]` the elements, `prices{}` the values of a map."""
    if old == new:
        return
    if widens(old, new):
        yield _Difference(f"{_subject(path)} widened from {old.text} to {new.text}")
    elif old.names is not None and new.names is not None:
        yield from _row_differences(old, new, path)
    elif old.name != new.name or old.name not in ("TUPLE", "LIST", "MAP"):
        yield _Difference(_misfit(old, new, path), is_problem=True)
    elif len(old.children) != len(new.children):
        count = f"{len(old.children)} and {len(new.children)} fields"
        yield _Difference(f"{_subject(path)} is a tuple of {count}, and fields without names stay", is_problem=True)
    elif old.name == "MAP":
        if old.children[0] != new.children[0]:
            change = f"{old.children[0].text} to {new.children[0].text}"
            yield _Difference(f"the keys of {_subject(path)} change from {change}", is_problem=True)
        yield from _differences(old.children[1], new.children[1], f"{path}{{}}")
    else:
        for index, (before, after) in enumerate(zip(old.children, new.children, strict=True)):
            yield from _differences(before, after, f"{path}[]" if old.name == "LIST" else f"{path}[{index}]")


def _row_differences(old: TypeInformation, new: TypeInformation, path: str) -> Iterator[_Difference]:
    before = dict(zip(old.names or (), old.children, strict=True))
    after = dict(zip(new.names or (), new.children, strict=True))
    kept = [name for name in after if name in before]
    if before and not kept:
        text = f"no field of {_subject(path)} has its old name; the old ones are {', '.join(before)}"
        yield _Difference(text, is_problem=True)
        return
    prefix = f"{path}." if path else ""
    for name in after:
        if name not in before:
            yield _Difference(f"field `{prefix}{name}` added")
    for name in before:
        if name not in after:
            yield _Difference(f"field `{prefix}{name}` dropped")
    if kept != [name for name in before if name in after]:
        yield _Difference(f"fields of {_subject(path)} in another order")
    for name in kept:
        yield from _differences(before[name], after[name], prefix + name)


def _misfit(old: TypeInformation, new: TypeInformation, path: str) -> str:
    text = f"{_subject(path)} was {old.text} and is {new.text}"
    numbers = (*_INTEGERS, *_EXACT_FLOATS, "DECIMAL")
    if old.name in numbers and new.name in numbers:
        text += f", which does not hold every {old.text} exactly"
    return text


def _subject(path: str) -> str:
    return f"`{path}`" if path else "the value"


def _way_out(saved: StateInfo, declared: StateInfo) -> str:
    if _other_keys(saved, declared):
        return "restore with the old key_by, or give the operator a new uid"
    if _other_shape(saved, declared) is not None:
        return "restore with the old declaration, or give the new state another name"
    return (
        "restore with the old declaration, tell the descriptor how to change old values with migrate(function), or "
        "give the new state another name"
    )
