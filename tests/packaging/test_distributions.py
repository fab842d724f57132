"""What the wheel and the source distribution hold, and what their metadata claims."""

import ast
import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from importlib.metadata import EntryPoint
from pathlib import Path

import hatchling.build
import pytest

from tests.loading import load_script

ROOT = Path(__file__).resolve().parent.parent.parent
FOR_DEVELOPERS = [
    ".ci/run",
    ".gitignore",
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "bench/__main__.py",
    "docs/glossary.md",
    "penstock/py.typed",
    "pyproject.toml",
    "scripts/setup.py",
    "tests/packaging/test_distributions.py",
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)  # the build backend builds the project in the working directory
        name = hatchling.build.build_wheel(str(folder))
    return zipfile.ZipFile(folder / name)


def metadata(wheel: zipfile.ZipFile) -> Message:
    return message_from_bytes(wheel.read(info_file(wheel, "METADATA")))


def info_file(wheel: zipfile.ZipFile, name: str) -> str:
    (path,) = (path for path in wheel.namelist() if path.endswith(f".dist-info/{name}"))
    return path


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "penstock").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = {path for path in wheel.namelist() if ".dist-info/" not in path}
    assert found == package and "penstock/py.typed" in found


def test_security_s19_the_wheel_is_the_same_wherever_it_is_built(
    wheel: zipfile.ZipFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "penstock", copy / "penstock", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, copy / name)  # with a time of its own
    monkeypatch.chdir(copy)
    name = hatchling.build.build_wheel(str(tmp_path))
    assert wheel.filename is not None
    assert (tmp_path / name).read_bytes() == Path(wheel.filename).read_bytes()


def test_the_wheel_has_the_licence_and_the_command(wheel: zipfile.ZipFile) -> None:
    assert wheel.read(info_file(wheel, "licenses/LICENSE")) == (ROOT / "LICENSE").read_bytes()
    assert metadata(wheel)["License-Expression"] == "Apache-2.0"
    scripts = wheel.read(info_file(wheel, "entry_points.txt")).decode()
    assert scripts == "[console_scripts]\npenstock = penstock.cli.main:main\n"
    assert callable(EntryPoint("penstock", "penstock.cli.main:main", "console_scripts").load())


def test_the_metadata_claims_the_versions_of_pyspark_that_are_tested(wheel: zipfile.ZipFile) -> None:
    minors = load_script("spark_versions").MINORS
    major, minor = minors[-1].split(".")
    required = metadata(wheel).get_all("Requires-Dist", [])
    assert f"pyspark<{major}.{int(minor) + 1},>={minors[0]}" in required
    assert f"PySpark {minors[0]} to {minors[-1]}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_library_that_the_package_imports_is_declared(wheel: zipfile.ZipFile) -> None:
    requirements = [text for text in metadata(wheel).get_all("Requires-Dist", []) if "extra == 'dev'" not in text]
    declared = {re.split(r"[<>=;\[ ]", text)[0].replace("-", "_") for text in requirements}
    # modules that are not called like their distribution
    names = {"yaml": "pyyaml", "py4j": "pyspark", "opentelemetry": "opentelemetry_sdk"}
    found = {names.get(module, module) for module in imported_modules() if module not in sys.stdlib_module_names}
    assert sorted(found - declared - {"penstock"}) == []


def imported_modules() -> Iterator[str]:
    for path in (ROOT / "penstock").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.partition(".")[0]


def test_the_source_distribution_holds_what_developers_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    name = hatchling.build.build_sdist(str(tmp_path))
    with tarfile.open(tmp_path / name) as archive:
        found = {path.partition("/")[2] for path in archive.getnames()}
    assert [path for path in FOR_DEVELOPERS if path not in found] == []
    assert not [path for path in found if path.startswith((".venv", ".tools", ".bench", ".git/"))]
