"""Values of declared types that are given as JSON: the reverse of what JSON lines hold."""

import base64
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from penstock.model.row import make_row
from penstock.model.time import EPOCH, MICROSECOND, Instant
from penstock.model.types import TypeInformation


def from_json(value: Any, kind: TypeInformation) -> Any:
    """The value of a type that is given as JSON: times are ISO 8601 text, bytes base64. A missing field is None."""
    if value is None or kind.kind != "arrow":
        return value
    if kind.names is not None:
        return make_row(
            kind.names, [from_json(value.get(n), k) for n, k in zip(kind.names, kind.children, strict=True)]
        )
    if kind.name in ("TUPLE", "LIST"):
        kinds = kind.children if kind.name == "TUPLE" else kind.children * len(value)
        items = [from_json(item, part) for item, part in zip(value, kinds, strict=True)]
        return tuple(items) if kind.name == "TUPLE" else items
    if kind.name == "MAP":
        return {from_json(k, kind.children[0]): from_json(v, kind.children[1]) for k, v in value.items()}
    return _JSON_VALUES.get(kind.name, _as_it_is)(value)


def _as_it_is(value: Any) -> Any:
    return value


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


_JSON_VALUES: dict[str, Callable[[Any], Any]] = {
    "STRING": str,
    **dict.fromkeys(("BYTE", "SHORT", "INT", "LONG", "BIG_INT"), int),
    **dict.fromkeys(("FLOAT", "DOUBLE"), float),
    **dict.fromkeys(("BIG_DEC", "DECIMAL"), lambda value: Decimal(str(value))),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NTZ"), _time),
    "DATE": date.fromisoformat,
    "TIME": time.fromisoformat,
    "INSTANT": lambda text: Instant.of_epoch_micro((_time(text) - EPOCH) // MICROSECOND),
    "BINARY": base64.b64decode,
}
