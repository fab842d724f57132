"""Types that another one may become, and what its values become: the rules of schema evolution once more, in Python."""

from decimal import Context, Decimal
from typing import Any

from hypothesis import strategies as st

from penstock.model import type_information as ti
from penstock.model.row import make_row
from penstock.model.type_information import TypeInformation
from tests.codec.strategies import KEY_SCALARS, TYPES

WIDER = {
    "BYTE": ("SHORT", "INT", "LONG", "BIG_INT", "FLOAT", "DOUBLE"),
    "SHORT": ("INT", "LONG", "BIG_INT", "FLOAT", "DOUBLE"),
    "INT": ("LONG", "BIG_INT", "DOUBLE"),
    "LONG": ("BIG_INT",),
    "FLOAT": ("DOUBLE",),
}


@st.composite
def evolutions(draw: st.DrawFn, old: TypeInformation) -> TypeInformation:
    """A type that `old` may become, often itself."""
    if old.name in WIDER:
        return ti.scalar(draw(st.sampled_from((old.name, *WIDER[old.name]))))
    if old.name == "DECIMAL" and draw(st.integers(0, 4)) == 0:
        return ti.scalar("BIG_DEC")
    if old.name == "DECIMAL":
        scale = draw(st.integers(0, ti.MAX_DECIMAL_PRECISION - old.arrow.precision))
        digits = draw(st.integers(0, ti.MAX_DECIMAL_PRECISION - old.arrow.precision - scale))
        return ti.decimal(old.arrow.precision + scale + digits, old.arrow.scale + scale)
    if old.name == "ROW":
        return draw(_rows(old))
    children = [draw(evolutions(child)) for child in old.children]
    if old.name == "LIST":
        return ti.list_of(children[0])
    if old.name == "MAP":
        return ti.map_of(old.children[0], children[1])
    return ti.tuple_of(children) if old.name == "TUPLE" else old


@st.composite
def _rows(draw: st.DrawFn, old: TypeInformation) -> TypeInformation:
    names = old.get_field_names()
    kept = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    fields = {name: draw(evolutions(old.field(name))) for name in kept}
    for number in range(draw(st.integers(0, 2))):
        name = f"new {number}"
        if name not in names:
            fields[name] = draw(TYPES)
    order = draw(st.permutations(list(fields)))
    return ti.row_of(order, [fields[name] for name in order])


def evolved_value(value: Any, old: TypeInformation, new: TypeInformation) -> Any:
    """What a value becomes."""
    if value is None or old == new:
        return value
    if new.name in ("FLOAT", "DOUBLE"):
        return float(value)
    if new.name == "DECIMAL":
        return value.quantize(Decimal(1).scaleb(-new.arrow.scale), context=Context(prec=60))
    if new.name == "LIST":
        return [evolved_value(item, old.children[0], new.children[0]) for item in value]
    if new.name == "MAP":
        return {key: evolved_value(item, old.children[1], new.children[1]) for key, item in value.items()}
    if new.name == "TUPLE":
        return tuple(evolved_value(*part) for part in zip(value, old.children, new.children, strict=True))
    if new.name == "ROW":
        names, by_name = old.get_field_names(), value.as_dict()
        items = [
            evolved_value(by_name[name], old.field(name), new.field(name)) if name in names else None
            for name in new.get_field_names()
        ]
        return make_row(new.names, items)
    return value


def exact(value: Any) -> Any:
    """The value in a form in which 1, 1.0 and True differ, as do rows with other names."""
    if isinstance(value, tuple):
        return type(value).__name__, getattr(value, "_fields", None), list(map(exact, value))
    if isinstance(value, list):
        return list(map(exact, value))
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    return (type(value).__name__, value) if isinstance(value, (int, float, Decimal)) else value


ROWS = st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, unique=True).flatmap(
    lambda names: st.lists(TYPES, min_size=len(names), max_size=len(names)).map(lambda types: ti.row_of(names, types))
)
"""Row types: where most of the rules are."""
EVOLVING = ROWS | TYPES | KEY_SCALARS
