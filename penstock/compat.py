"""`install()`: from then on `import pyflink…` means `import penstock…` in this process, for PyFlink programs.

A module of PyFlink's path is the module of the same path here, not a copy: `pyflink.common.Row is penstock.common.Row`.
What a program prints and writes as text then has Flink's forms: a declared tuple is `(ada,2)`, a row is `+I[ada, 2]` in
a file and `+I[ada,2]` on the terminal.

A program that makes the names mean the same in another way, such as `sys.modules["pyflink"] = penstock` or modules that
import from here, is treated in the same way.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from penstock.errors import UsageError

PENSTOCK = "penstock"
PYFLINK = "pyflink"
ABSENT = {
    "pyflink.table": "the Table API is not available; use Spark's DataFrames and SQL before env.from_dataframe()",
    "pyflink.java_gateway": "there are no Java objects of Flink here",
    "pyflink.util": "there are no Java objects of Flink here",
    "pyflink.fn_execution": "functions run in TaskManager processes, not in Beam workers",
}
"""Modules that have no counterpart, and why."""
_SHARED_NAMES = (
    (f"{PYFLINK}.common", "Row"),
    (f"{PYFLINK}.datastream", "StreamExecutionEnvironment"),
)
"""Modules and classes in them: a program that has made PyFlink's names mean ours has loaded one of them."""


def install() -> None:
    """Make `import pyflink` mean `penstock` in this process, and in the TaskManagers of the jobs that it starts.

    Modules that the program itself has put into `sys.modules` under PyFlink's name stay. Raises UsageError if the real
    PyFlink has been imported already.
    """
    if _is_finder_there():
        return
    if any(map(_is_of_pyflink, getattr(sys.modules.get(PYFLINK), "__path__", ()))):
        raise UsageError(
            "PyFlink has been imported already, so `import pyflink` cannot mean penstock in this process; call "
            "penstock.compat.install() before the first import of pyflink"
        )
    sys.meta_path.insert(0, _PyFlinkFinder())


def uninstall() -> None:
    """Let `import pyflink` mean PyFlink again. Modules that have been imported stay what they are."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _PyFlinkFinder)]
    for name in _pyflink_modules():
        del sys.modules[name]


def is_installed() -> bool:
    """Whether `import pyflink` means `penstock` in this process, by `install` or because the program arranged it."""
    return (
        _is_finder_there()
        or getattr(sys.modules.get(PYFLINK), "__name__", None) == PENSTOCK
        or any(_has_ours(module, name) for module, name in _SHARED_NAMES)
    )


def _has_ours(module: str, name: str) -> bool:
    found = getattr(sys.modules.get(module), name, None)
    return getattr(found, "__module__", "").startswith(f"{PENSTOCK}.")


def _is_finder_there() -> bool:
    return any(isinstance(finder, _PyFlinkFinder) for finder in sys.meta_path)


def _pyflink_modules() -> dict[str, ModuleType]:
    """What is imported under PyFlink's name."""
    return {name: module for name, module in [*sys.modules.items()] if f"{name}.".startswith(f"{PYFLINK}.")}


def _is_of_pyflink(folder: str) -> bool:
    """Whether the folder is PyFlink's own, and not one of a program for more modules under that name."""
    return (Path(folder) / "version.py").exists()


class _PyFlinkFinder(MetaPathFinder):
    """Finds the module here for a module of PyFlink."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != PYFLINK and not fullname.startswith(f"{PYFLINK}."):
            return None
        ours = f"{PENSTOCK}{fullname.removeprefix(PYFLINK)}"
        try:
            module = importlib.import_module(ours)
        except ModuleNotFoundError as error:
            if error.name is None or not ours.startswith(error.name):
                raise  # a library that our module imports is missing
            found = self._found_by_others(fullname, path, target)
            if found is None:
                raise ModuleNotFoundError(f"no module {fullname!r}: {_why_absent(fullname)}", name=fullname) from None
            return found
        return ModuleSpec(fullname, _LoadedAlready(module), is_package=hasattr(module, "__path__"))

    def _found_by_others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        """A module of the program's own under PyFlink's name: from a finder, or from a folder `pyflink` on its path."""
        for finder in sys.meta_path:
            found = finder.find_spec(name, path, target) if finder is not self else None
            if found is not None:
                return found
        folders = [Path(entry) for entry in sys.path if not _is_of_pyflink(f"{entry}/{PYFLINK}")]
        return PathFinder.find_spec(name, [str(folder.joinpath(*name.split(".")[:-1])) for folder in folders])


def _why_absent(fullname: str) -> str:
    for name, reason in ABSENT.items():
        if fullname == name or fullname.startswith(f"{name}."):
            return reason
    ours = f"{PENSTOCK}{fullname.removeprefix(PYFLINK)}"
    return f"it would be {ours!r}, which is not there; docs/reference/pyflink-names.md says what is"


class _LoadedAlready(Loader):
    """Gives a module that exists a second name. Its own name and spec stay."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import machinery has put the other name there
