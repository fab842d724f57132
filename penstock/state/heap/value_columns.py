"""Values of a type of fixed width as numpy arrays: a number per slot, or for rows and tuples one array per field."""

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.row import row_class
from penstock.model.row_groups import Indices, Numbers
from penstock.model.type_information import TypeInformation

NUMBERS: dict[str, type] = {
    "BOOLEAN": np.bool_,
    "BYTE": np.int8,
    "SHORT": np.int16,
    "INT": np.int32,
    "LONG": np.int64,
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
}


def is_fixed_width(type_info: TypeInformation) -> bool:
    """Whether values of this type are numbers, or rows or tuples of them."""
    if type_info.name in ("ROW", "TUPLE"):
        return bool(type_info.children) and all(map(is_fixed_width, type_info.children))
    return type_info.name in NUMBERS


class ValueColumns:
    """Values of one type by slot. Those that are not valid are None."""

    __slots__ = ("_make", "children", "type", "valid", "values")

    def __init__(self, type_info: TypeInformation, size: int) -> None:
        self.type = type_info
        self.valid = np.zeros(size, np.bool_)
        self.children = [ValueColumns(child, size) for child in type_info.children]
        """Of the fields; empty for a number."""
        self.values: Numbers = np.zeros(0 if self.children else size, NUMBERS.get(type_info.name, np.bool_))
        self._make: Any = tuple if type_info.names is None else row_class(type_info.names).make

    @staticmethod
    def of_arrow(array: pa.Array, type_info: TypeInformation) -> "ValueColumns":
        """The values of an Arrow array of this type."""
        columns = ValueColumns(type_info, 0)
        columns.valid = array.is_valid().to_numpy(zero_copy_only=False)
        if columns.children:
            fields = enumerate(type_info.children)
            columns.children = [ValueColumns.of_arrow(array.field(n), child) for n, child in fields]
        else:
            filled = array.fill_null(False if type_info.name == "BOOLEAN" else 0) if array.null_count else array
            columns.values = filled.to_numpy(zero_copy_only=False)
        return columns

    def to_arrow(self) -> pa.Array:
        """All values as an Arrow array, which may share their memory."""
        mask = None if self.valid.all() else ~self.valid
        if not self.children:
            return pa.array(self.values, self.type.arrow, mask=mask, from_pandas=False)
        arrays = [child.to_arrow() for child in self.children]
        nulls = None if mask is None else pa.array(mask)
        return pa.StructArray.from_arrays(arrays, fields=list(self.type.arrow), mask=nulls)

    def grow(self, size: int) -> None:
        """Make room for more slots, in new arrays: readers on other threads keep the old ones."""
        self.valid = _grown(self.valid, size)
        if not self.children:
            self.values = _grown(self.values, size)
        for child in self.children:
            child.grow(size)

    def take(self, slots: Indices) -> "ValueColumns":
        """A copy of the values at these slots, in their order."""
        taken = ValueColumns(self.type, 0)
        taken.valid = self.valid[slots]
        taken.children = [child.take(slots) for child in self.children]
        if not self.children:
            taken.values = self.values[slots]
        return taken

    def put(self, slots: Indices, columns: "ValueColumns") -> None:
        """Replace the values at these slots."""
        self.valid[slots] = columns.valid
        if not self.children:
            self.values[slots] = columns.values
        for child, given in zip(self.children, columns.children, strict=True):
            child.put(slots, given)

    def item(self, slot: int) -> Any:
        """The value at a slot, in its stored form."""
        if not self.valid[slot]:
            return None
        if not self.children:
            return self.values[slot].item()
        return self._make([child.item(slot) for child in self.children])

    def set_item(self, slot: int, value: Any) -> None:
        """Replace the value at a slot by one in its stored form."""
        if value is None:
            self.valid[slot] = False
            return
        if not self.children:
            self.values[slot] = value
        for child, part in zip(self.children, value if self.children else (), strict=True):
            child.set_item(slot, part)
        self.valid[slot] = True


def _grown(array: Numbers, size: int) -> Numbers:
    grown = np.zeros(size, array.dtype)
    grown[: len(array)] = array
    return grown
