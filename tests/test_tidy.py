"""The rules of the code's shape that a program can check: layers, names, sizes, and what `__init__` may hold."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "penstock"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
EVERY_FILE = [
    path
    for part in ("penstock", "tests", "scripts", "bench", "docs", "examples")
    for path in sorted((ROOT / part).rglob("*.py"))
]

# Highest first; what shares a line may not import each other.
LAYERS: list[set[str]] = [
    {"__main__"},
    {"cli"},
    {"cep"},
    {"common"},
    {"datastream", "state_processor", "query"},
    {"jobmanager"},
    {"rest"},
    {"control"},
    {"services"},
    {"spark"},
    {"connectors"},
    {"runtime"},
    {"graph"},
    {"checkpoint"},
    {"state"},
    {"storage", "codec", "metrics"},
    {"model"},
    {"compat"},
    {"errors", "clock", "failpoint", "import_interrupts"},
]
RANK = {layer: rank for rank, layers in enumerate(LAYERS) for layer in layers}
FOLLOWS_PYFLINK = ("cep", "datastream", "common", "model")
DOMAIN_NAMES = ("TaskManager", "JobManager")
PYFLINK_NAMES = {
    "BaseBroadcastProcessFunction",
    "BaseBuilder",
    "BaseContext",
    "Builder",
    "BulkFormatBuilder",
    "BulkWriterFactory",
    "CsvSchemaBuilder",
    "DefaultBulkFormatBuilder",
    "DefaultRowFormatBuilder",
    "FileSourceBuilder",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSinkBuilder",
    "JdbcConnectionOptionsBuilder",
    "KafkaSourceBuilder",
    "OptionBuilder",
    "OutputFileConfigBuilder",
    "RowFormatBuilder",
    "TypedConfigOptionBuilder",
}


def layer_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(node: ast.AST, *, at_run_time: bool = False) -> Iterator[str]:
    """The modules named in imports; `at_run_time`: only those that importing the module imports."""
    skipped = (ast.FunctionDef, ast.AsyncFunctionDef) if at_run_time else ()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0 and child.module, "imports are absolute"
            for alias in child.names:
                name = f"{child.module}.{alias.name}"
                yield name if name in MODULES else child.module
        elif not isinstance(child, skipped) and not (at_run_time and is_type_checking(child)):
            yield from imports(child, at_run_time=at_run_time)


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield module, node


def base_names(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases]


def body_length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def expect_none(found: Iterable[str]) -> None:
    listed = "\n".join(found)
    assert not listed, f"\n{listed}"


def test_a_layer_imports_only_layers_below_it() -> None:
    found = []
    for module, tree in TREES.items():
        own = layer_of(module)
        for name in imports(tree):
            other = layer_of(name)
            if not name.startswith("penstock.") or own in ("", "testing") or other == own:
                continue
            if (
                other not in RANK
                or RANK[own] >= RANK[other]
                or (own == "common" and other not in ("datastream", "model"))
            ):
                found.append(f"{module} imports {name}")
    expect_none(found)


def test_every_folder_is_a_known_layer() -> None:
    assert not {layer_of(module) for module in MODULES} - set(RANK) - {"", "testing"}


def test_no_module_imports_itself_through_others() -> None:
    graph = {module: {n for n in imports(tree, at_run_time=True) if n in TREES} for module, tree in TREES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_only_the_spark_folder_imports_pyspark() -> None:
    allowed = ("spark", "testing")
    expect_none(
        module
        for module, tree in TREES.items()
        if layer_of(module) not in allowed and any(name.split(".")[0] in ("pyspark", "py4j") for name in imports(tree))
    )


def test_only_the_terminal_module_prints() -> None:
    """So that a line never breaks a progress display or `--json`. The version, the help and a schema are asked for."""
    allowed = ("penstock.control.terminal", "penstock.cli.main", "penstock.datastream.data_stream")
    calls = ("print", "sys.stdout.write", "sys.stderr.write")
    expect_none(
        f"{module}:{node.lineno}"
        for module, tree in TREES.items()
        if module not in allowed and layer_of(module) != "testing"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in calls
    )


def test_one_module_knows_the_name_of_the_drivers_log() -> None:
    """It is written by one object for each job."""
    found = [
        module
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value == "driver.log"
    ]
    assert found == ["penstock.control.driver_log"]


def test_modules_are_named_after_what_they_hold() -> None:
    expect_none(m for m in MODULES if re.search(r"(^|_)(utils?|helpers?|managers?|misc)$", m.rsplit(".", 1)[-1]))


def test_no_two_modules_have_one_name() -> None:
    """Modules that users import under PyFlink's paths may repeat the name of the module that holds the thing."""
    names = Counter(m.rsplit(".", 1)[-1] for m, path in MODULES.items() if path.name != "__init__.py" and is_ours(m))
    expect_none(name for name, count in names.items() if count > 1)


def test_no_two_classes_have_one_name() -> None:
    """Private classes are left out, and the modules that users import from."""
    top_level = (
        node.name
        for module, tree in TREES.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and is_ours(module)
    )
    expect_none(name for name, count in Counter(top_level).items() if count > 1)


def is_ours(module: str) -> bool:
    return layer_of(module) not in ("datastream", "common", "state_processor")


def test_files_have_at_most_500_lines() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in EVERY_FILE}
    expect_none(f"{path.relative_to(ROOT)}: {length}" for path, length in lengths.items() if length > 500)


def test_function_bodies_have_at_most_70_lines() -> None:
    functions = [
        (path, node)
        for path in EVERY_FILE
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    expect_none(
        f"{path.relative_to(ROOT)}: {node.name} has {body_length(node)}"
        for path, node in functions
        if body_length(node) > 70
    )


def test_class_names_say_what_the_thing_is() -> None:
    banned = re.compile(r"^_?(Abstract|Base)[A-Z]|(Impl|Factory|Builder|Manager)$")
    expect_none(
        f"{module}.{node.name}"
        for module, node in classes()
        if banned.search(node.name) and not node.name.endswith(DOMAIN_NAMES) and node.name not in PYFLINK_NAMES
    )


def test_classes_inherit_from_protocols_and_abcs_only() -> None:
    """A base that is a concrete class of ours is found. Data (Structs), exceptions and what users see are left out."""
    open_names = {"ABC", "Protocol", "Struct", "Enum", "Generic"}
    concrete = {
        node.name
        for module, node in classes()
        if layer_of(module) not in (*FOLLOWS_PYFLINK, "errors")
        and not open_names & set(base_names(node))
        and "abstractmethod" not in ast.unparse(node)
    }
    expect_none(
        f"{module}.{node.name}({', '.join(base_names(node))})"
        for module, node in classes()
        if layer_of(module) not in FOLLOWS_PYFLINK and concrete & set(base_names(node))
    )


def test_errors_are_in_errors_py_end_in_error_and_say_what_they_mean() -> None:
    in_errors = [node for node in TREES["penstock.errors"].body if isinstance(node, ast.ClassDef)]
    expect_none(node.name for node in in_errors if not node.name.endswith("Error") or not ast.get_docstring(node))
    tree_of_names = re.findall(
        r"\w+Error\b", (ast.get_docstring(TREES["penstock.errors"]) or "").split("Messages say")[0]
    )
    assert sorted(tree_of_names) == sorted(node.name for node in in_errors)
    expect_none(
        f"{module}.{node.name}"
        for module, node in classes()
        if module != "penstock.errors" and any(re.search(r"(Error|^Exception)$", name) for name in base_names(node))
    )


def test_init_files_only_re_export_with_a_sorted_all() -> None:
    found = []
    for module, path in MODULES.items():
        if path.name != "__init__.py":
            continue
        names: list[str] = []
        listed: list[str] = []
        for node in TREES[module].body:
            if isinstance(node, ast.ImportFrom):
                names += [alias.asname or alias.name for alias in node.names]
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                listed = ast.literal_eval(node.value)
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__":
                names.append("__version__")
            elif isinstance(node, ast.Import) and ast.unparse(node) == "import penstock.import_interrupts":
                continue  # it must come before everything else
            elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                found.append(f"{module}: {ast.unparse(node)}")
        if listed != sorted(names):
            found.append(f"{module}: __all__ is not the sorted list of what it imports")
    expect_none(found)


def test_no_unfinished_marks() -> None:
    mark = "FIX" + "ME"
    expect_none(str(path.relative_to(ROOT)) for path in EVERY_FILE if mark in path.read_text(encoding="utf-8"))


def test_the_readme_has_at_most_150_lines() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
