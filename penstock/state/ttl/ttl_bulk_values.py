"""The values of a state with a time to live for many keys at once, by the same rules as those of one key.

`TtlValueState` is the same for the current key.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.codec import arrow_functions as pc
from penstock.state.backend.bulk_values import BulkValues
from penstock.state.ttl.cleanup_scan import CleanupScan
from penstock.state.ttl.rules import EpochClock


class TtlBulkValues:
    """Values that expire, around the stored pairs of stamp and value."""

    def __init__(self, stored: BulkValues, scan: CleanupScan, clock: EpochClock) -> None:
        self._stored = stored
        self._scan = scan
        self._clock = clock
        self.name = stored.name
        self.type = stored.type.children[1]

    def get(self, addresses: Sequence[Any]) -> pa.Array:
        """The values; null where there is none or it has expired."""
        self._scan.check_accesses(len(addresses))
        pairs = self._stored.get(addresses)
        stamps, values = pc.struct_field(pairs, [0]), pc.struct_field(pairs, [1])
        rules, now_ms = self._scan.rules, self._clock.now_ms
        has_stamp = stamps.is_valid().to_numpy(zero_copy_only=False)
        times = stamps.fill_null(now_ms).to_numpy()
        expired = has_stamp & (times <= now_ms - rules.ttl_ms)
        if self._clock.in_epoch:
            if rules.refreshes_on_read:
                is_there = pairs.is_valid().to_numpy(zero_copy_only=False)
                refreshed = is_there & ~expired & (~has_stamp | (times < now_ms))
                self._put_stamped(*_selected(addresses, values, refreshed))
            if expired.any():
                self._stored.clear([addresses[index] for index in np.flatnonzero(expired).tolist()])
        return values if rules.shows_expired or not expired.any() else pc.if_else(pa.array(~expired), values, None)

    def put(self, addresses: Sequence[Any], values: pa.Array) -> None:
        """Replace the values, with new stamps; null removes one."""
        self._scan.check_accesses(len(addresses))
        self._put_stamped(addresses, values)

    def clear(self, addresses: Sequence[Any]) -> None:
        """Remove the values."""
        self._stored.clear(addresses)

    def expire(self, addresses: Sequence[Any]) -> tuple[int, int, int | None]:
        """Remove expired values that nobody reads: the number of values, of removed ones, and the oldest stamp left."""
        stamps = pc.struct_field(self._stored.get(addresses), [0])
        limit_ms = self._clock.now_ms - self._scan.rules.unread_ms
        over = pc.less_equal(stamps, limit_ms).fill_null(fill_value=False).to_numpy(zero_copy_only=False)
        removed = np.flatnonzero(over)
        if len(removed):
            self._stored.clear([addresses[index] for index in removed.tolist()])
        oldest = pc.min(stamps.filter(pa.array(~over))).as_py()
        return len(addresses), len(removed), oldest

    def _put_stamped(self, addresses: Sequence[Any], values: pa.Array) -> None:
        if values.null_count < len(values):
            self._scan.written = True
        stamps = pa.array(np.full(len(values), self._clock.now_ms, np.int64))
        fields, mask = list(self._stored.type.arrow), values.is_null() if values.null_count else None
        self._stored.put(addresses, pa.StructArray.from_arrays([stamps, values], fields=fields, mask=mask))


def _selected(addresses: Sequence[Any], values: pa.Array, where: Any) -> tuple[Sequence[Any], pa.Array]:
    rows = np.flatnonzero(where)
    return [addresses[index] for index in rows.tolist()], values.take(pa.array(rows))
