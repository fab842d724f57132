"""State backends by name: the built-in ones, those of installed packages, and those that the program registers.

A package provides one with an entry point in the group `penstock.state_backends`, which every process finds:

    [project.entry-points."penstock.state_backends"]
    sqlite = "sqlite_backend:SqliteSpec"

A program calls `register_backend`. What it registers is sent to the TaskManagers with the job's plan.
"""

from importlib.metadata import entry_points

from penstock.errors import ConfigurationError, UsageError
from penstock.state.backend.backend_spec import BackendSpec, ReadsFiles
from penstock.state.heap.hashmap_spec import HashMapSpec
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec

ENTRY_POINTS = "penstock.state_backends"
_BUILT_IN: dict[str, type[BackendSpec]] = {spec.name: spec for spec in (HashMapSpec, RocksDBSpec)}
_registered: dict[str, type[BackendSpec]] = {}


def register_backend(spec: type[BackendSpec]) -> type[BackendSpec]:
    """Register a backend for this process and for the jobs it starts. Can be used as a class decorator."""
    name = spec.name
    known = _BUILT_IN.get(name) or _registered.get(name)
    if known is not None and (known.__module__, known.__qualname__) != (spec.__module__, spec.__qualname__):
        raise UsageError(f"state backend {name!r} is already registered as {known.__module__}.{known.__qualname__}")
    _registered[name] = spec
    return spec


def registered_backends() -> tuple[type[BackendSpec], ...]:
    """The backends that this process has registered, for processes that do not run the program."""
    return tuple(_registered.values())


def backend_names() -> list[str]:
    """Every name that `state.backend.type` accepts in this process."""
    return sorted({*_BUILT_IN, *_registered, *(entry.name for entry in entry_points(group=ENTRY_POINTS))})


def find_backend(name: str) -> type[BackendSpec]:
    """The backend of this name. Flink's class names are accepted too.

    Raises ConfigurationError, which lists the names that are registered.
    """
    lower_name = name.strip().lower()
    known = {**_BUILT_IN, **_registered}
    if lower_name in known:
        return known[lower_name]
    class_name = lower_name.rpartition(".")[2].removesuffix("factory")
    for spec in known.values():
        if spec.class_name.lower() == class_name:
            return spec
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name == name.strip():
            return _loaded(entry.name, entry.load())
    raise ConfigurationError(
        f"no state backend {name!r} is registered; there are {', '.join(backend_names())}. Register your own with "
        f"register_backend() or with an entry point in the group {ENTRY_POINTS!r}"
    )


def reader_of(name: str) -> ReadsFiles:
    """The reader of the native files of this backend."""
    spec = find_backend(name)()
    if not isinstance(spec, ReadsFiles):
        raise UsageError(f"the snapshot has native files of state backend {name!r}, which cannot read any")
    return spec


def _loaded(name: str, found: object) -> type[BackendSpec]:
    if not (isinstance(found, type) and issubclass(found, BackendSpec)):
        raise ConfigurationError(f"the entry point of state backend {name!r} is {found!r}, not a BackendSpec")
    return found
