"""`install()`: from then on `import pyflink…` means `import penstock…` in this process, for PyFlink programs.

A module of PyFlink's path is the module of the same path here, not a copy: `pyflink.common.Row is penstock.common.Row`.
What a program prints and writes as text then has Flink's forms: `(ada,2)` for a declared tuple, `+I[ada, 2]` for a row.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from penstock.errors import UsageError

PYFLINK = "pyflink"
ABSENT = {
    "pyflink.table": "the Table API is not available; use Spark's DataFrames and SQL before env.from_dataframe()",
    "pyflink.java_gateway": "there are no Java objects of Flink here",
    "pyflink.util.java_utils": "there are no Java objects of Flink here",
    "pyflink.fn_execution": "functions run in TaskManager processes, not in Beam workers",
}
"""Modules that have no counterpart, and why."""


def install() -> None:
    """Make `import pyflink` mean `penstock` in this process, and in the TaskManagers of the jobs that it starts.

    Raises UsageError if the real PyFlink has been imported already.
    """
    if is_installed():
        return
    loaded = [name for name in sys.modules if name == PYFLINK or name.startswith(f"{PYFLINK}.")]
    if loaded:
        raise UsageError(
            "PyFlink has been imported already, so `import pyflink` cannot mean penstock in this process; call "
            "penstock.compat.install() before the first import of pyflink"
        )
    sys.meta_path.insert(0, _PyFlinkFinder())


def uninstall() -> None:
    """Let `import pyflink` mean PyFlink again. Modules that have been imported stay what they are."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _PyFlinkFinder)]
    for name in [name for name in sys.modules if name == PYFLINK or name.startswith(f"{PYFLINK}.")]:
        del sys.modules[name]


def is_installed() -> bool:
    """Whether `import pyflink` means `penstock` in this process."""
    return any(isinstance(finder, _PyFlinkFinder) for finder in sys.meta_path)


class _PyFlinkFinder(MetaPathFinder):
    """Finds the module here for a module of PyFlink."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != PYFLINK and not fullname.startswith(f"{PYFLINK}."):
            return None
        for name, reason in ABSENT.items():
            if fullname == name or fullname.startswith(f"{name}."):
                raise ModuleNotFoundError(f"no module {fullname!r}: {reason}", name=fullname)
        ours = f"penstock{fullname.removeprefix(PYFLINK)}"
        try:
            module = importlib.import_module(ours)
        except ModuleNotFoundError as error:
            if error.name is None or not ours.startswith(error.name):
                raise  # a library that our module imports is missing
            reason = f"it would be {ours!r}, which is not there; docs/reference/pyflink-names.md says what is"
            raise ModuleNotFoundError(f"no module {fullname!r}: {reason}", name=fullname) from None
        return ModuleSpec(fullname, _LoadedAlready(module), is_package=hasattr(module, "__path__"))


class _LoadedAlready(Loader):
    """Gives a module that exists a second name. Its own name and spec stay."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import machinery has put the other name there
