"""`KeyedValues`: the value state that a BatchProcessFunction reads and writes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.codec import arrow_functions as pc
from penstock.codec.columns import cast_column
from penstock.errors import UnsupportedValueError
from penstock.model.batch_functions import BatchValueState
from penstock.model.key_slots import KeySlots
from penstock.model.row_groups import Numbers
from penstock.model.type_information import TypeInformation
from penstock.state.backend.bulk_values import BulkValues


class KeyedValues(BatchValueState):
    """The values of the keys of a batch."""

    def __init__(self, values: BulkValues) -> None:
        self._values = values

    def get_many(self, keys: KeySlots) -> pa.Array:
        return self._values.get(keys.state_keys)

    def get_numpy(self, keys: KeySlots, default: Any) -> Any:
        return to_numpy(self.get_many(keys), default)

    def put_many(self, keys: KeySlots, values: Any, where: Numbers | None = None) -> None:
        array = to_arrow(values, self._values.type, self._values.name)
        if len(array) != len(keys):
            raise UnsupportedValueError(
                f"put_many() of state {self._values.name!r} got {len(array)} values for {len(keys)} keys; give one "
                f"value for each distinct key of the batch, such as values[keys.last_rows] of values by row"
            )
        if where is None:
            self._values.put(keys.state_keys, array)
        else:
            chosen = np.flatnonzero(where)
            self._values.put(_at(keys.state_keys, chosen), array.take(pa.array(chosen)))

    def clear_many(self, keys: KeySlots, where: Numbers | None = None) -> None:
        self._values.clear(keys.state_keys if where is None else _at(keys.state_keys, np.flatnonzero(where)))


def to_numpy(values: pa.Array, default: Any) -> Any:
    """Values as a numpy array with `default` for null; of rows and tuples one array for each field."""
    if not pa.types.is_struct(values.type):
        return (values.fill_null(default) if values.null_count else values).to_numpy(zero_copy_only=False)
    if len(default) != values.type.num_fields:
        raise UnsupportedValueError(
            f"the default {default!r} has {len(default)} entries for {values.type.num_fields} fields; give one for each"
        )
    return tuple(to_numpy(pc.struct_field(values, [index]), value) for index, value in enumerate(default))


def to_arrow(values: Any, type_info: TypeInformation, name: str) -> pa.Array:
    """Values that a function puts into a state, as an array of the state's type."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return cast_column(values, type_info)
    if not type_info.children or isinstance(values, np.ndarray):
        try:
            return cast_column(pa.array(values), type_info)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise UnsupportedValueError(f"values for state {name!r} of type {type_info.text}: {error}") from error
    if type_info.name not in ("ROW", "TUPLE") or len(values) != len(type_info.children):
        raise UnsupportedValueError(
            f"values for state {name!r} of type {type_info.text}: give an Arrow array, or for a row or tuple a "
            f"sequence of arrays, one for each field"
        )
    fields = [to_arrow(column, child, name) for column, child in zip(values, type_info.children, strict=True)]
    return pa.StructArray.from_arrays(fields, fields=list(type_info.arrow))


def _at(keys: Sequence[Any], chosen: Numbers) -> list[Any]:
    return [keys[index] for index in chosen.tolist()]
