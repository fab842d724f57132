"""Compares PyFlink's public names with those here, and writes docs/reference/pyflink-names.md.

    python scripts/pyflink_names.py             write the page
    python scripts/pyflink_names.py --check     fail if the page is not current
    python scripts/pyflink_names.py --fetch     download PyFlink's wheel and write scripts/pyflink_names.json from it

PyFlink's sources are read and never imported. Public are the modules of `pyflink.datastream` and `pyflink.common`, the
classes and functions in a module's `__all__` (without one: all whose names have no leading underscore), and what these
classes define themselves: methods, properties, constants, enum members.
"""

import ast
import enum
import importlib
import inspect
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.generated import mark, write_or_check  # noqa: E402
from scripts.pyflink_notes import ABSENT, DIFFERENT  # noqa: E402

VERSION = "2.3.0"
PACKAGES = ("pyflink/datastream/", "pyflink/common/")
NAMES = Path(__file__).with_suffix(".json")
PAGE = ROOT / "docs" / "reference" / "pyflink-names.md"
WHEELS = ROOT / ".tools" / "pyflink"
HEAD = f"""\
{mark("pyflink_names.py")}

# PyFlink's names

Every public name of `pyflink.datastream` and `pyflink.common` in PyFlink {VERSION}, and what it is here. *Same* means
that the name is found in the module of the same path (with `penstock` for `pyflink`), is the same kind of thing and
takes the same parameters. [Coming from PyFlink](../coming-from-pyflink.md) says what else changes.

"""


@dataclass(frozen=True)
class Name:
    """A public name of PyFlink: its path below `pyflink`, its kind, and the parameters of a function."""

    path: str
    kind: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """What a name of PyFlink is here: "same", "different" or "absent", and how or why."""

    name: Name
    status: str
    reason: str = ""


def fetch() -> Path:
    """PyFlink's wheel, downloaded by pip unless it is there."""
    found = sorted(WHEELS.glob(f"apache_flink-{VERSION}-*.whl"))
    if not found:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(WHEELS)]
        subprocess.run([*command, "--only-binary", ":all:", f"apache-flink=={VERSION}"], check=True)
        found = sorted(WHEELS.glob(f"apache_flink-{VERSION}-*.whl"))
    return found[0]


def read_wheel(wheel: Path) -> list[Name]:
    """The public names in a wheel's sources."""
    with ZipFile(wheel) as sources:
        files = sorted(name for name in sources.namelist() if name.startswith(PACKAGES) and name.endswith(".py"))
        return [name for file in files for name in module_names(file, sources.read(file).decode())]


def module_names(file: str, source: str) -> Iterator[Name]:
    """The module and the public names that it defines; of a package, those that it exports."""
    tree = ast.parse(source)
    path = file.removeprefix("pyflink/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    yield Name(path, "module")
    exported = _exported(tree)
    defined: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and _is_public(node.name, exported):
            defined.add(node.name)
            yield from class_names(path, node) if isinstance(node, ast.ClassDef) else [function_name(path, node)]
    if exported is not None:
        yield from (Name(f"{path}.{name}", "export") for name in sorted(set(exported) - defined))


def class_names(path: str, node: ast.ClassDef) -> Iterator[Name]:
    """The class and its own public members."""
    path = f"{path}.{node.name}"
    yield Name(path, "class")
    members: dict[str, Name] = {}
    for item in node.body:
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and not item.name.startswith("_"):
            members[item.name] = function_name(path, item)
        elif isinstance(item, ast.ClassDef) and not item.name.startswith("_"):
            members |= {name.path.removeprefix(f"{path}."): name for name in class_names(path, item)}
        elif isinstance(item, ast.Assign):
            names = [target.id for target in item.targets if isinstance(target, ast.Name)]
            members |= {name: Name(f"{path}.{name}", "value") for name in names if not name.startswith("_")}
    yield from members.values()


def function_name(path: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Name:
    """A function, method or property."""
    marks = {part.id for part in node.decorator_list if isinstance(part, ast.Name)}
    if "property" in marks:
        return Name(f"{path}.{node.name}", "value")
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    names += [f"*{node.args.vararg.arg}"] if node.args.vararg else []
    return Name(f"{path}.{node.name}", "function", tuple(name for name in names if name not in ("self", "cls")))


def _exported(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets):
            return [str(name) for name in ast.literal_eval(node.value)]
    return None


def _is_public(name: str, exported: list[str] | None) -> bool:
    return name in exported if exported is not None else not name.startswith("_")


def compare_all(names: list[Name]) -> list[Comparison]:
    """Each name compared with what is here."""
    return [compare(name) for name in names]


def compare(name: Name) -> Comparison:
    """What a name is here."""
    found = find(name.path)
    if found is MISSING:
        return Comparison(name, "absent", note(ABSENT, name.path))
    how = note(DIFFERENT, name.path) or difference(name, found)
    return Comparison(name, "different" if how else "same", how)


MISSING = object()


def find(path: str) -> Any:
    """The module, class, function or member at the path below `penstock`, or MISSING."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(["penstock", *parts[:length]]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if isinstance(found, type):
                fields = getattr(found, "__dataclass_fields__", {})
                found = inspect.getattr_static(found, part, fields.get(part, MISSING))
            else:
                found = getattr(found, part, MISSING)
            if found is MISSING:
                return MISSING
        return found
    return MISSING


def difference(name: Name, found: Any) -> str:
    """How what is here differs in kind or parameters; empty if it does not."""
    if name.kind == "class":
        return "" if isinstance(found, type) else f"a {type(found).__name__}"
    if name.kind != "function":
        return ""
    function = getattr(found, "__func__", found)
    if isinstance(found, property) or not callable(function):
        return "a value, not a method"
    if isinstance(function, enum.Enum):
        return ""
    accepted = list(inspect.signature(function).parameters.values())
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in accepted):
        return ""
    given = [parameter.name for parameter in accepted if parameter.name not in ("self", "cls")]
    wanted = [parameter.lstrip("*") for parameter in name.parameters]
    if given[: len(wanted)] == wanted:
        return ""
    return f"takes `({', '.join(given)})`, in PyFlink `({', '.join(name.parameters)})`"


def note(notes: dict[str, str], path: str) -> str:
    """The first note whose pattern matches the path."""
    return next((text for pattern, text in notes.items() if fnmatchcase(path, pattern)), "")


def page(comparisons: list[Comparison]) -> str:
    """The page: the counts, what is absent and why, and a table for each module."""
    counts = Counter(c.status for c in comparisons)
    absent = top_absent(comparisons)
    lines = [
        HEAD,
        f"{len(comparisons)} names: {counts['same']} the same, {counts['different']} different, {counts['absent']} "
        f"absent ({len(absent)}, if the members of an absent class or module are not counted on their own).\n\n",
        "## Absent\n\n| name | why |\n|---|---|\n",
        *(f"| `{c.name.path}` | {c.reason} |\n" for c in absent),
        "\n",
    ]
    for module in [c.name.path for c in comparisons if c.name.kind == "module" and c.status != "absent"]:
        lines += module_table(module, comparisons)
    return "".join(lines).rstrip("\n") + "\n"


def top_absent(comparisons: list[Comparison]) -> list[Comparison]:
    """What is absent, without the members of a class or module that is absent as a whole."""
    absent = {c.name.path: c for c in comparisons if c.status == "absent"}
    return [c for path, c in absent.items() if not any(path.startswith(f"{other}.") for other in absent)]


def module_table(module: str, comparisons: list[Comparison]) -> list[str]:
    """The names of one module that are the same, and the others with what is different."""
    modules = [c.name.path for c in comparisons if c.name.kind == "module"]
    own = [c for c in comparisons if c.name.kind != "module" and module_of(c.name, modules) == module]
    if not own:
        return []
    lines = [f"## `{module}`\n\n| name | here | how or why |\n|---|---|---|\n"]
    for c in own:
        name = c.name.path.removeprefix(f"{module}.") + ("()" if c.name.kind == "function" else "")
        lines.append(f"| `{name}` | {c.status} | {c.reason} |\n")
    return [*lines, "\n"]


def module_of(name: Name, modules: list[str]) -> str:
    """The longest module path that the name begins with."""
    return max((module for module in modules if name.path.startswith(f"{module}.")), key=len)


def load() -> list[Name]:
    """PyFlink's names, from the file beside this script."""
    return [Name(path, kind, tuple(parameters)) for path, kind, parameters in json.loads(NAMES.read_text())]


def save(names: list[Name]) -> None:
    """Write the file beside this script, one name a line."""
    rows = [json.dumps([name.path, name.kind, list(name.parameters)]) for name in names]
    NAMES.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Write or check the page, or fetch PyFlink's names."""
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["--fetch"]:
        save(read_wheel(fetch()))
        return 0
    return write_or_check({PAGE: page(compare_all(load()))}, given, (__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
