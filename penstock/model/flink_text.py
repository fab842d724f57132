"""The text of a record as Flink prints it: of declared types the text of the Java object, otherwise Python's own."""

from collections.abc import Callable
from datetime import timezone
from typing import Any

import numpy as np

from penstock.model.types import TypeInformation


def flink_text(record_type: TypeInformation) -> Callable[[Any], str]:
    """The function that turns records of a type into text.

    >>> from penstock.model.types import Types
    >>> flink_text(Types.TUPLE([Types.STRING(), Types.BOOLEAN()]))(("ada", True))
    '(ada,true)'
    """
    return str if record_type.kind != "arrow" else _typed(record_type)


def printed_text(record_type: TypeInformation) -> Callable[[Any], str]:
    """The function that turns records into what PyFlink's `print` shows: it turns rows into text in Python.

    >>> from penstock.model.types import Types
    >>> printed_text(Types.ROW([Types.STRING(), Types.BOOLEAN()]))(("ada", True))
    '+I[ada,True]'
    """
    return _printed_row if record_type.name == "ROW" else flink_text(record_type)


def _printed_row(row: Any) -> str:
    return f"{_kind_of(row)}[{','.join(map(str, row))}]"


def _typed(kind: TypeInformation) -> Callable[[Any], str]:
    text = _of_value(kind)
    return lambda value: "null" if value is None else text(value)


def _of_value(kind: TypeInformation) -> Callable[[Any], str]:
    if kind.kind != "arrow":
        return str
    parts = [_typed(child) for child in kind.children]
    if kind.name == "TUPLE":
        return lambda value: f"({','.join([text(item) for text, item in zip(parts, value, strict=True)])})"
    if kind.name == "ROW":
        return lambda row: f"{_kind_of(row)}[{', '.join([text(item) for text, item in zip(parts, row, strict=True)])}]"
    if kind.name == "LIST":
        return lambda value: f"[{', '.join([parts[0](item) for item in value])}]"
    if kind.name == "MAP":
        return lambda value: f"{{{', '.join([f'{parts[0](key)}={parts[1](item)}' for key, item in value.items()])}}}"
    return _SCALARS.get(kind.name, str)


def _kind_of(row: Any) -> str:
    kind = getattr(row, "get_row_kind", None)
    return str(kind()) if kind is not None else "+I"


def _of_boolean(value: Any) -> str:
    return "true" if value else "false"


def _of_number(value: Any) -> str:
    """A floating point number as Java writes it: with a point, and with an exponent outside of 10^-3 to 10^7."""
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(number)]
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        text = repr(number)
        return text if "e" not in text else f"{number:f}"
    return _scientific(number)


def _of_float(value: Any) -> str:
    """A number of 32 bits with the digits that it needs: 0.1, not those of the same number in 64 bits."""
    return _of_number(str(np.float32(value)))


def _scientific(number: float) -> str:
    """The shortest digits that give the number, one of them before the point, and the exponent."""
    digits = repr(number)
    sign = "-" if digits.startswith("-") else ""
    plain, _, power = digits.lstrip("-").partition("e")
    whole, _, fraction = plain.partition(".")
    exponent = int(power or 0) + len(whole) - 1
    figures = whole + fraction
    leading = len(figures) - len(figures.lstrip("0"))
    figures = figures[leading:].rstrip("0")
    return f"{sign}{figures[0]}.{figures[1:] or '0'}E{exponent - leading}"


def _of_time(value: Any) -> str:
    return f"{value:%H:%M:%S}"


def _of_timestamp(value: Any) -> str:
    """A `java.sql.Timestamp`, in UTC: at least one digit of a fraction, and no zeros at its end."""
    moment = value if value.tzinfo is None else value.astimezone(timezone.utc)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond:06}".rstrip("0").ljust(21, "0")


def _of_instant(value: Any) -> str:
    """A `java.time.Instant`: a fraction of three, six or nine digits, or none."""
    fraction = f"{value.nanos:09}"
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{value.to_datetime():%Y-%m-%dT%H:%M:%S}{'.' if fraction else ''}{fraction}Z"


def _of_bytes(value: Any) -> str:
    """An array of Java's bytes, which have a sign."""
    return str([byte - 256 if byte > 127 else byte for byte in value])


_SCALARS: dict[str, Callable[[Any], str]] = {
    "BOOLEAN": _of_boolean,
    "FLOAT": _of_float,
    "DOUBLE": _of_number,
    "TIME": _of_time,
    "TIMESTAMP": _of_timestamp,
    "TIMESTAMP_NTZ": _of_timestamp,
    "INSTANT": _of_instant,
    "BINARY": _of_bytes,
}
