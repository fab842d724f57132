"""The function behind `KeyedStream.as_queryable_state`: what it keeps of a key's records is read by queries."""

from typing import Any

from penstock.model.descriptors import ReducingStateDescriptor, ValueStateDescriptor
from penstock.model.functions import KeyedProcessFunction, RuntimeContext


class PublishedRecords(KeyedProcessFunction):
    """Keeps the last record of each key, or with a reducing state all records of a key reduced to one."""

    def __init__(self, descriptor: ValueStateDescriptor | ReducingStateDescriptor) -> None:
        self._descriptor = descriptor

    def open(self, runtime_context: RuntimeContext) -> None:
        """Fetch the state."""
        if isinstance(self._descriptor, ReducingStateDescriptor):
            self._keep = runtime_context.get_reducing_state(self._descriptor).add
        else:
            self._keep = runtime_context.get_state(self._descriptor).update

    def process_element(self, value: Any, ctx: Any) -> None:
        """Keep the record. Nothing is emitted."""
        self._keep(value)
