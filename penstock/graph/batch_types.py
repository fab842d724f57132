"""Checks of the types of rows that are processed as Arrow columns, made while the program is built."""

from typing import Any

from penstock.errors import UsageError
from penstock.model.types import TypeInformation, resolve_type


def check_batch_types(input_type: TypeInformation, output_type: Any, name: str) -> None:
    """Raise unless the rows that a BatchProcessFunction gets and returns have columns of declared types."""
    require_columns(input_type, name)
    if output_type is None:
        raise UsageError(
            f'{name} is a BatchProcessFunction, whose results need a type; write output_type="customer string, total '
            f'double", for example'
        )
    if not _is_typed(resolve_type(output_type)):
        raise UsageError(
            f"{name} is a BatchProcessFunction, and the output_type {resolve_type(output_type).text} is no type of "
            f"columns; give every field a type of numbers, text, times, lists or rows"
        )


def require_columns(input_type: TypeInformation, name: str) -> None:
    """Raise unless records of this type are columns of declared types."""
    if not _is_typed(input_type):
        raise UsageError(
            f"{name} processes columns, but the records before it are of type {input_type.text}, without declared "
            f'columns; declare them where they are made, for example output_type="customer string, amount double"'
        )


def _is_typed(type_info: TypeInformation) -> bool:
    return type_info.kind == "arrow" and all(map(_is_typed, type_info.children))
