"""Writes docs/reference/api/: one page for each module that programs import, from signatures and docstrings.

python scripts/api_reference.py            # writes the pages
python scripts/api_reference.py --check    # fails if they are not what it would write
"""

import ast
import enum
import importlib
import inspect
import re
import sys
from collections.abc import Collection
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.generated import mark, write_or_check  # noqa: E402

FOLDER = ROOT / "docs" / "reference" / "api"
MODULES = {
    "penstock.cep": None,
    "penstock.common": None,
    "penstock.connectors.delta": None,
    "penstock.connectors.iceberg": None,
    "penstock.datastream": None,
    "penstock.datastream.agg": None,
    "penstock.datastream.connectors": None,
    "penstock.datastream.connectors.file_system": None,
    "penstock.datastream.connectors.kafka": None,
    "penstock.datastream.connectors.number_seq": None,
    "penstock.datastream.functions": None,
    "penstock.datastream.state": None,
    "penstock.model.sink": ["ColumnWriter", "Sink", "SinkContext", "SinkWriter"],
    "penstock.query": None,
    "penstock.state_processor": None,
    "penstock.testing": None,
}
"""The modules, and which of their names are public where they have no `__all__`."""
ABOUT_INDEX = """
What programs import. The pages are made from the docstrings. Names and signatures are PyFlink's wherever PyFlink has
them; [differences from Flink](../../differences-from-flink.md) lists what differs behind them.

A class is described on the first page of this list that has it, and the others link there.
"""
PLAIN_TYPES = {"Any", "Callable", "Iterable", "Mapping", "None", "Path", "Sequence", "True", "False"}
_CITATION = re.compile(r" ?\((?:PROTOCOL|features|reliability|security|DESIGN|STYLE) [^)]*\)")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def main(arguments: list[str]) -> int:
    """Write or check the pages; the exit code."""
    pages = {FOLDER / f"{name}.md": text for name, text in all_pages().items()}
    return write_or_check(pages, arguments, "the reference of the public API")


def all_pages() -> dict[str, str]:
    """File name without suffix -> text, the index included."""
    homes: dict[Any, str] = {}
    pages: dict[str, str] = {}
    lines: list[str] = []
    for module_name, chosen in MODULES.items():
        module = importlib.import_module(module_name)
        names = sorted(chosen or module.__all__, key=str.lower)
        for name in names:
            homes.setdefault(getattr(module, name), module_name)
        pages[module_name] = module_page(module, names, homes)
        links = ", ".join(f"[`{name}`]({_address(name, getattr(module, name), homes)})" for name in names)
        lines += [f"## [`{module_name}`]({module_name}.md)", f"{_first_line(module)} {links}"]
    pages["index"] = _joined(mark("api_reference.py"), "# Public API", ABOUT_INDEX.strip(), *lines)
    return pages


def module_page(module: ModuleType, names: list[str], homes: dict[Any, str]) -> str:
    """The page of one module: what it holds, then every name in alphabetical order."""
    parts = [mark("api_reference.py"), f"# `{module.__name__}`", clean(module.__doc__)]
    for name in names:
        thing = getattr(module, name)
        parts.append(f"## {name}")
        if homes[thing] != module.__name__:
            parts.append(f"See [`{homes[thing]}.{_home_name(name, thing, homes)}`]({_address(name, thing, homes)}).")
        elif inspect.isclass(thing):
            parts += class_parts(name, thing, homes)
        else:
            parts += value_parts(name, thing)
    return _joined(*parts)


def _home_name(name: str, thing: Any, homes: dict[Any, str]) -> str:
    """The name under which a thing is described: another one if this is only PyFlink's old name for it."""
    return name if hasattr(importlib.import_module(homes[thing]), name) else str(thing.__name__)


def _address(name: str, thing: Any, homes: dict[Any, str]) -> str:
    return f"{homes[thing]}.md#{_home_name(name, thing, homes).lower()}"


def class_parts(name: str, kind: type, homes: dict[Any, str]) -> list[str]:
    """A class: how it is made, what it is, its members; nested classes follow."""
    parts = [clean(kind.__doc__)]
    if issubclass(kind, enum.Enum):
        return [*parts, "\n".join(f"- `{member.name}`" for member in kind)]
    described = [base for base in kind.__mro__[1:] if base in homes]
    if is_made_by_programs(kind, homes):
        constructor = signature(vars(kind)["__init__"], skip_self=True)
        parts.insert(0, f"`{name}{constructor}`")
    if described:
        links = ", ".join(f"[`{base.__name__}`]({homes[base]}.md#{base.__name__.lower()})" for base in described)
        parts.append(f"Also has the members of {links}.")
    hidden = {name for base in described for name, _ in members_of(base, ())}
    members = members_of(kind, hidden)
    plain = [(name, member) for name, member in members if not inspect.isclass(member)]
    parts.append("\n".join(member_line(kind, name, member) for name, member in plain if doc_of(kind, name)))
    for member_name, member in members:
        if inspect.isclass(member):
            parts += [f"### {name}.{member_name}", *class_parts(f"{name}.{member_name}", member, homes)]
    return parts


def is_made_by_programs(kind: type, homes: dict[Any, str]) -> bool:
    """Whether programs call the class: all that its constructor takes is public."""
    if inspect.isabstract(kind) or "__init__" not in vars(kind):
        return False
    parameters = list(inspect.signature(vars(kind)["__init__"]).parameters.values())[1:]
    words = re.findall(r"[A-Z]\w+", " ".join(str(_annotation(parameter.annotation)) for parameter in parameters))
    public = {thing.__name__ for thing in homes if inspect.isclass(thing)} | PLAIN_TYPES
    return set(words) <= public and not any(parameter.name.startswith("_") for parameter in parameters)


def members_of(kind: type, hidden: Collection[str]) -> list[tuple[str, Any]]:
    """Public members of the class itself, and those of its bases that are not hidden, in the order of the code."""
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        if base.__module__.startswith("penstock"):
            for name, member in vars(base).items():
                is_new = name not in found and (base is kind or name not in hidden)
                if is_new and not name.startswith("_") and _is_member(member):
                    found[name] = member
    return list(found.items())


def _is_member(member: Any) -> bool:
    return callable(member) or isinstance(member, property | classmethod | staticmethod)


def doc_of(kind: type, name: str) -> str | None:
    """The docstring of a member, that of a base class where it has none; members without any are internal."""
    return inspect.getdoc(inspect.getattr_static(kind, name)) or inspect.getdoc(getattr(kind, name))


def member_line(kind: type, name: str, member: Any) -> str:
    """A list item for one method or property."""
    doc = doc_of(kind, name)
    if isinstance(member, property):
        return _item(f"`{name}` (property)", doc)
    function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    how = " (class method)" if isinstance(member, classmethod) else ""
    how = " (static method)" if isinstance(member, staticmethod) else how
    text = signature(function, skip_self=not isinstance(member, staticmethod))
    return _item(f"`{name}{text}`{how}", doc)


def _item(head: str, doc: str | None) -> str:
    text = clean(doc)
    return f"- {head}<br>" + re.sub(r"\n(?=.)", "\n  ", text)


def value_parts(name: str, thing: Any) -> list[str]:
    """A function, or a value such as `CHECKPOINT`."""
    if inspect.isfunction(thing):
        return [f"`{name}{signature(thing, skip_self=False)}`", clean(thing.__doc__)]
    return [_value_doc(name)]


def _value_doc(name: str) -> str:
    """The text that follows the assignment of a value in the code."""
    for path in sorted((ROOT / "penstock").rglob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for node, after in zip(body, body[1:], strict=False):
            is_it = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
            if is_it and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                return clean(str(after.value.value))
    raise SystemExit(f"the value {name} has no text behind its assignment")


def signature(function: Any, *, skip_self: bool) -> str:
    """The parameters and the result as they are written in the code."""
    found = inspect.signature(function)
    parameters = [_plain(parameter) for parameter in found.parameters.values()][1 if skip_self else 0 :]
    shown = found.replace(parameters=parameters, return_annotation=_annotation(found.return_annotation))
    return _tidy(str(shown)).removesuffix(" -> None")


class _Text(str):
    """An annotation that prints as it is written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(annotation=_annotation(parameter.annotation))


def _annotation(annotation: Any) -> Any:
    if annotation is inspect.Signature.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    short = re.sub(r"\b(?:typing|collections\.abc|penstock(?:\.\w+)+|pyspark(?:\.\w+)+)\.(?=\w)", "", text)
    return _Text(re.sub(r"['\"](\w+(?:\.\w+)*)['\"]", r"\1", short))


def _tidy(text: str) -> str:
    return _ADDRESS.sub("", re.sub(r"\bpenstock(?:\.\w+)+\.(?=\w)", "", text)).replace("NoneType", "None")


def clean(doc: str | None) -> str:
    """A docstring as Markdown: no citations of the specification, `Args:` as a list, indented code as a block."""
    text = re.sub(r" *# doctest:.*", "", _CITATION.sub("", inspect.cleandoc(doc or "")))
    text = re.sub(r"(?:^>>> .*(?:\n(?!\n).*)*)", lambda match: f"```pycon\n{match.group()}\n```", text, flags=re.M)
    head, found, arguments = text.partition("\nArgs:\n")
    if not found:
        return text
    items = re.sub(r"\n {8,}", " ", arguments)
    return head.rstrip() + "\n\n" + re.sub(r"^ {4}(\w+): ", r"- `\1`: ", items, flags=re.M)


def _first_line(module: ModuleType) -> str:
    return clean(module.__doc__).split("\n\n")[0].replace("\n", " ")


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
