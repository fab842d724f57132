"""Hypothesis strategies: types, values of a type, and plain Python values."""

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from penstock.model import type_information as ti
from penstock.model.row import make_row
from penstock.model.time import Instant
from penstock.model.type_information import TypeInformation
from penstock.model.types import TAGGED, Types

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.lists(st.text(min_size=1, max_size=6).filter(lambda n: n.isprintable()), min_size=1, max_size=4, unique=True)
ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
AWARE = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=ZONES)
MICRO_INSTANTS = st.integers(-(10**15), 10**15).map(Instant.of_epoch_micro)


def ints(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "BYTE": ints(8),
    "SHORT": ints(16),
    "INT": ints(32),
    "LONG": ints(64),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "STRING": TEXT,
    "BINARY": st.binary(max_size=12),
    "DATE": st.dates(),
    "TIME": st.times(),
    "TIMESTAMP": AWARE,
    "TIMESTAMP_NTZ": st.datetimes(),
    "INSTANT": MICRO_INSTANTS,
    "DURATION": st.timedeltas(timedelta(days=-100_000), timedelta(days=100_000)),
    "BIG_INT": st.integers(-(10**38) + 1, 10**38 - 1),
    "BIG_DEC": st.decimals(allow_nan=False, allow_infinity=False),
}
HASHABLE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.binary(max_size=8)
    | st.decimals(allow_nan=False)
    | st.dates()
    | st.times()
    | st.datetimes()
    | AWARE
    | st.timedeltas()
    | st.builds(Instant, st.integers(-(10**12), 10**12), st.integers(0, 999_999_999))
)


@st.composite
def rows(draw: st.DrawFn, items: st.SearchStrategy[Any]) -> Any:
    names = draw(st.none() | NAMES.map(tuple))
    size = draw(st.integers(0, 3)) if names is None else len(names)
    return make_row(names, draw(st.lists(items, min_size=size, max_size=size)))


PLAIN = st.recursive(
    HASHABLE,
    lambda items: (
        st.lists(items, max_size=4)
        | st.lists(items, max_size=4).map(tuple)
        | st.dictionaries(HASHABLE, items, max_size=4)
        | rows(items)
    ),
    max_leaves=12,
)


def decimal_types() -> st.SearchStrategy[TypeInformation]:
    return st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: ti.decimal(p, s)))


KEY_SCALARS = st.sampled_from(sorted({*SCALARS} - {"BIG_DEC"})).map(ti.scalar) | decimal_types()
TYPES: st.SearchStrategy[TypeInformation] = st.recursive(
    KEY_SCALARS | st.just(Types.BIG_DEC()) | st.just(TAGGED) | st.just(Types.PICKLED_BYTE_ARRAY()),
    lambda children: (
        children.map(ti.list_of)
        | st.tuples(KEY_SCALARS, children).map(lambda pair: ti.map_of(*pair))
        | st.lists(children, min_size=0, max_size=3).map(ti.tuple_of)
        | NAMES.flatmap(
            lambda names: st.lists(children, min_size=len(names), max_size=len(names)).map(
                lambda fields: ti.row_of(names, fields)
            )
        )
    ),
    max_leaves=5,
)


def values_of(type_info: TypeInformation) -> st.SearchStrategy[Any]:
    """Values of a type that read back equal, without None at the top."""
    name, children = type_info.name, type_info.children
    if name == "TAGGED":
        return PLAIN.filter(lambda value: value is not None)
    if name == "PICKLE":
        return st.lists(st.integers(), max_size=3)
    if name == "DECIMAL":
        limit, scale = 10**type_info.arrow.precision - 1, type_info.arrow.scale
        return st.integers(-limit, limit).map(lambda unscaled: Decimal(f"{unscaled}E-{scale}"))
    if name == "LIST":
        return st.lists(optional(children[0]), max_size=3)
    if name == "MAP":
        return st.dictionaries(values_of(children[0]), optional(children[1]), max_size=3)
    if name == "TUPLE":
        return st.tuples(*map(optional, children))
    if name == "ROW":
        return st.tuples(*map(optional, children)).map(lambda values: make_row(type_info.names, values))
    return SCALARS[name]


def optional(type_info: TypeInformation) -> st.SearchStrategy[Any]:
    """Values of a type, and None."""
    return st.none() | values_of(type_info)
