"""User functions as bytes, with cloudpickle: functions of `__main__`, lambdas and closures are pickled by value.

Only the plan is pickled this way, once per job. Records and state never are.
"""

import inspect
import types
from collections.abc import Iterator
from typing import Any

import cloudpickle

from penstock.errors import NotPicklableError
from penstock.graph.callables import as_written

_SEARCH_DEPTH = 4
_EMPTY_CELL = types.CellType()


def dumps(function: Any, operator: str, created: str = "") -> bytes:
    """The function as bytes that `loads` turns into an equal one in another process.

    Raises a NotPicklableError that names the operator, the line of the program that created it, the function and, if it
    can be found, the variable at fault.
    """
    try:
        data: bytes = cloudpickle.dumps(function)
    except Exception as error:
        place = f"\n  created at {created}" if created else ""
        raise NotPicklableError(_explain(function, operator, error) + place) from error
    return data


def loads(data: bytes) -> Any:
    """A fresh function object; each call makes a new one."""
    return cloudpickle.loads(data)


def function_name(function: Any) -> str:
    """The name of the function in the program, or of the class of a function object."""
    function = as_written(function)
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return str(name).split("<locals>.")[-1].strip("<>")


def _explain(function: Any, operator: str, error: Exception) -> str:
    path, value = _find_culprit(function)
    reason = str(error).strip() or type(error).__name__
    if not path:
        return (
            f"function {function_name(function)!r} of operator {operator!r} cannot be sent to the TaskManagers: "
            f"{reason}; create what it needs in open(), which runs there"
        )
    return (
        f"function {function_name(function)!r} of operator {operator!r} cannot be sent to the TaskManagers: it uses "
        f"{'.'.join(path)!r}, a {_type_name(value)}, which cannot be pickled ({reason}); create it in open(), which "
        f"runs there"
    )


def _find_culprit(root: Any) -> tuple[list[str], Any]:
    """The innermost named value below `root` that cannot be pickled by itself: its path, and the value."""
    path: list[str] = []
    value = as_written(root)
    seen: set[int] = set()
    while len(path) < _SEARCH_DEPTH:
        seen.add(id(value))
        bad = next(
            ((name, part) for name, part in _parts(value) if id(part) not in seen and not _picklable(part)),
            None,
        )
        if bad is None:
            break
        path.append(bad[0])
        value = bad[1]
    return path, value


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What is pickled with a function or an object, by name: closure, globals it uses, defaults, attributes."""
    if isinstance(value, types.MethodType):
        yield "self", value.__self__
        value = value.__func__
    if isinstance(value, types.FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        yield from ((name, cell.cell_contents) for name, cell in cells if cell != _EMPTY_CELL)
        yield from ((name, value.__globals__[name]) for name in value.__code__.co_names if name in value.__globals__)
        for name, parameter in inspect.signature(value).parameters.items():
            if parameter.default is not inspect.Parameter.empty:
                yield name, parameter.default
    elif isinstance(value, dict):
        yield from ((str(key), part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    elif not any("__reduce__" in vars(base) for base in type(value).__mro__[:-1]):  # a class with one chooses itself
        yield from getattr(value, "__dict__", {}).items()
        if type(value).__module__ == "__main__" or "<locals>" in type(value).__qualname__:
            yield from (
                (name, part) for name, part in vars(type(value)).items() if isinstance(part, types.FunctionType)
            )


def _picklable(value: Any) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:  # a foreign __reduce__ may raise anything
        return False
    return True


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
