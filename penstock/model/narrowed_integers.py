"""Integers that are too large for their type, narrowed as Java does it: PyFlink's collections are read that way."""

from typing import Any

from penstock.model.types import TypeInformation

_BITS = {"BYTE": 8, "SHORT": 16, "INT": 32, "LONG": 64}


def narrowed(value: Any, kind: TypeInformation) -> Any:
    """The value with its integers in the range of their types; the same object if they are.

    >>> from penstock.model.types import Types
    >>> narrowed((40_000, "ada"), Types.TUPLE([Types.SHORT(), Types.STRING()]))
    (-25536, 'ada')
    """
    bits = _BITS.get(kind.name)
    if bits is not None and isinstance(value, int) and not -(1 << bits - 1) <= value < 1 << bits - 1:
        return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    if kind.name in ("ROW", "TUPLE") and isinstance(value, tuple | list) and len(value) == len(kind.children):
        return _same_kind(value, [narrowed(part, child) for part, child in zip(value, kind.children, strict=True)])
    if kind.name == "ROW" and isinstance(value, dict):
        types = dict(zip(kind.names or (), kind.children, strict=True))
        return {name: narrowed(part, types[name]) if name in types else part for name, part in value.items()}
    if kind.name == "LIST" and isinstance(value, list | tuple):
        return _same_kind(value, [narrowed(part, kind.children[0]) for part in value])
    if kind.name == "MAP" and isinstance(value, dict):
        return {narrowed(k, kind.children[0]): narrowed(v, kind.children[1]) for k, v in value.items()}
    return value


def _same_kind(value: Any, parts: list[Any]) -> Any:
    """The parts as a list, a tuple or a row like the value."""
    if all(new is old for new, old in zip(parts, value, strict=True)):
        return value
    return tuple.__new__(type(value), parts) if isinstance(value, tuple) else parts
