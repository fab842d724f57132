"""`project`: records reduced to some of their fields."""

from collections.abc import Sequence
from typing import Any

from penstock.errors import UsageError
from penstock.model.functions import MapFunction
from penstock.model.row import row_class
from penstock.model.types import TypeInformation, Types


class Project(MapFunction):
    """Selects fields of tuples or rows, in a given order."""

    def __init__(self, positions: tuple[int, ...], names: tuple[str, ...] | None) -> None:
        self.positions = positions
        self.names = names

    def map(self, value: Any) -> Any:
        """The record with only these fields."""
        values = [value[position] for position in self.positions]
        return tuple(values) if self.names is None else row_class(self.names).make(values)


def project(record_type: TypeInformation, positions: Sequence[int]) -> tuple[Project, TypeInformation]:
    """The function for records of a tuple or row type, and the type of its results."""
    if record_type.name not in ("TUPLE", "ROW"):
        raise UsageError(
            f"Only Tuple DataStreams can be projected. The records are of type {record_type.text}; declare "
            f"output_type= as Types.TUPLE([...]) or a row, or use map()"
        )
    count = len(record_type.children)
    if not positions or any(isinstance(p, bool) or not isinstance(p, int) or not 0 <= p < count for p in positions):
        raise UsageError(f"project{tuple(positions)} on {record_type.text}; give positions from 0 to {count - 1}")
    types = [record_type.children[position] for position in positions]
    if record_type.names is None:
        return Project(tuple(positions), None), Types.TUPLE(types)
    names = tuple(record_type.names[position] for position in positions)
    return Project(tuple(positions), names), Types.ROW_NAMED(list(names), types)
