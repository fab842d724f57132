"""`KeySlots`: the distinct keys of a batch, and which row has which key."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from penstock.model.row_groups import Numbers, RowGroups


class KeySlots(RowGroups):
    """The distinct keys of a batch in the order of their first rows. The groups of rows are those of the keys.

    What a state returns for the keys, and what is put into it, has one value per distinct key: `values[keys.indices]`
    is that of each row.
    """

    def __init__(
        self,
        indices: Numbers,
        columns: Sequence[pa.Array],
        to_state_keys: Callable[[Sequence[pa.Array]], list[Any]],
        to_user_key: Callable[[Any], Any],
    ) -> None:
        super().__init__(indices, len(columns[0]))
        self.columns = tuple(columns)
        """The distinct keys as Arrow arrays, one for each column of the key."""
        self._to_state_keys = to_state_keys
        self._to_user_key = to_user_key

    @cached_property
    def state_keys(self) -> list[Any]:
        """The distinct keys as states address them."""
        return self._to_state_keys(self.columns)

    def to_pylist(self) -> list[Any]:
        """The distinct keys as Python objects: values, or tuples for a key of several columns."""
        return list(map(self._to_user_key, self.state_keys))
