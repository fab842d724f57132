"""Lists the public API: every name that users can import, with methods, signatures and values.

    python scripts/public_api.py            print the list
    python scripts/public_api.py --write    write it to tests/datastream/public_api.txt
    python scripts/public_api.py --check    fail if that file is not current

Public are the packages below and their modules that have an `__all__`, and the classes that public functions return.
To compare two versions, run it with each of them on PYTHONPATH and compare the two lists.
"""

import argparse
import enum
import importlib
import inspect
import pkgutil
import re
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

PACKAGES = (
    "penstock.cep",
    "penstock.common",
    "penstock.datastream",
    "penstock.query",
    "penstock.state_processor",
    "penstock.testing",
)
LIST = Path(__file__).resolve().parent.parent / "tests" / "datastream" / "public_api.txt"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_OUR_PATH = re.compile(r"\bpenstock(?:\.\w+)*\.(?=[A-Z])")


def public_api() -> str:
    """The list, one line for each name."""
    lines: list[str] = []
    listed: dict[type, None] = {}
    for module in modules():
        for name in sorted(module.__all__):
            value = getattr(module, name)
            lines.append(describe(f"{module.__name__}.{name}", value))
            if inspect.isclass(value) and is_ours(value):
                listed[value] = None
    for found in with_returned(listed):
        lines += members(found)
    return "\n".join(sorted(set(lines))) + "\n"


def modules() -> Iterator[ModuleType]:
    """The public packages and their public modules."""
    for package_name in PACKAGES:
        package = importlib.import_module(package_name)
        yield package
        for info in pkgutil.walk_packages(package.__path__, f"{package_name}."):
            module = importlib.import_module(info.name)
            if hasattr(module, "__all__"):
                yield module


def with_returned(classes: dict[type, None]) -> Iterator[type]:
    """The classes, and those that their methods return, and so on."""
    waiting, known = list(classes), dict(classes)
    while waiting:
        current = waiting.pop()
        yield current
        for function in functions_of(current):
            for found in returned_classes(function):
                if found not in known:
                    known[found] = None
                    waiting.append(found)


def functions_of(owner: type) -> Iterator[FunctionType]:
    """The public methods of a class that are written in this project."""
    for name in public_members(owner):
        value = inspect.getattr_static(owner, name)
        value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if isinstance(value, FunctionType):
            yield value


def returned_classes(function: FunctionType) -> Iterator[type]:
    """Our classes in the annotation of what a function returns."""
    try:
        waiting = [typing.get_type_hints(function).get("return")]
    except NameError:  # a name that is imported for type checkers only
        return
    while waiting:
        hint = waiting.pop()
        waiting += typing.get_args(hint)
        if inspect.isclass(hint) and is_ours(hint) and not hint.__name__.startswith("_"):
            yield hint


def members(owner: type) -> Iterator[str]:
    """A line for each public member of a class."""
    yield describe(owner.__name__, owner)
    for name in public_members(owner):
        yield describe(f"{owner.__name__}.{name}", inspect.getattr_static(owner, name))


def public_members(owner: type) -> list[str]:
    """The names of members, inherited ones too, unless they come from Python or another library."""
    ours = [part for part in owner.__mro__ if is_ours(part)]
    return sorted({name for part in ours for name in vars(part) if not name.startswith("_")})


def is_ours(value: type) -> bool:
    """Whether the class is defined in this project."""
    return value.__module__.split(".")[0] == "penstock"


def describe(name: str, value: Any) -> str:
    """A name with its kind, and its signature or value."""
    if isinstance(value, enum.Enum):
        return f"{name} = {value.value!r}"
    if inspect.isclass(value):
        return f"{name}: class{signature(value)}" if is_ours(value) else f"{name}: {plain(value)}"
    if isinstance(value, property):
        return f"{name}: property{signature(value.fget)}"
    if isinstance(value, staticmethod | classmethod):
        return f"{name}: {type(value).__name__}{signature(value.__func__)}"
    if inspect.isfunction(value):
        return f"{name}: function{signature(value)}"
    if isinstance(value, str | int | float | bool | bytes | tuple | None):
        return f"{name} = {_ADDRESS.sub('', repr(value))}"
    return f"{name}: {plain(type(value))}"


def signature(value: Any) -> str:
    """The parameters and the result; none for classes that cannot say."""
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return ""
    try:
        return plain(inspect.signature(value))
    except (TypeError, ValueError):
        return ""


def plain(value: Any) -> str:
    """The text of an annotation without the modules of our classes, which may move."""
    return re.sub(r" at 0x[0-9a-f]+", "", _OUR_PATH.sub("", str(value)))


def main(arguments: list[str] | None = None) -> int:
    """Print, write or check the list."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {LIST.name}")
    parser.add_argument("--check", action="store_true", help=f"fail if {LIST.name} is not current")
    flags = parser.parse_args(arguments)
    if flags.check:
        if LIST.read_text(encoding="utf-8") != public_api():
            print(f"{LIST} is not current: run `python scripts/public_api.py --write`", file=sys.stderr)
            return 1
    elif flags.write:
        LIST.write_text(public_api(), encoding="utf-8")
    else:
        print(public_api(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
