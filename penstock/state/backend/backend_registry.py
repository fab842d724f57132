"""The kinds of backends by name: our own, those of installed packages, and those that the program registers.

A package offers one with an entry point in the group `penstock.state_backends`, which every process finds:

    [project.entry-points."penstock.state_backends"]
    sqlite = "sqlite_backend:SqliteSpec"

A program calls `register_backend`; what it registers travels with the job's plan to the TaskManagers.
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
    """Make a kind of backend known to this process and to the jobs it starts; also as a decorator of the class."""
    name = spec.name
    known = _BUILT_IN.get(name) or _registered.get(name)
    if known is not None and (known.__module__, known.__qualname__) != (spec.__module__, spec.__qualname__):
        raise UsageError(f"there is a state backend {name!r} already: {known.__module__}.{known.__qualname__}")
    _registered[name] = spec
    return spec


def registered_backends() -> tuple[type[BackendSpec], ...]:
    """What this process has registered, for processes that do not run the program."""
    return tuple(_registered.values())


def backend_names() -> list[str]:
    """Every name that `state.backend.type` can have here."""
    return sorted({*_BUILT_IN, *_registered, *(entry.name for entry in entry_points(group=ENTRY_POINTS))})


def find_backend(name: str) -> type[BackendSpec]:
    """The kind of backend of this name; Flink's names of its classes are taken too.

    Raises ConfigurationError with the names there are.
    """
    wanted = name.strip().lower()
    known = {**_BUILT_IN, **_registered}
    if wanted in known:
        return known[wanted]
    class_name = wanted.rpartition(".")[2].removesuffix("factory")
    for spec in known.values():
        if spec.class_name.lower() == class_name:
            return spec
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name == name.strip():
            return _loaded(entry.name, entry.load())
    raise ConfigurationError(
        f"no state backend {name!r} is registered; there are {', '.join(backend_names())}. One of your own is made "
        f"known with register_backend() or an entry point in the group {ENTRY_POINTS!r}"
    )


def reader_of(name: str) -> ReadsFiles:
    """What reads the native files of the backend of this name."""
    spec = find_backend(name)()
    if not isinstance(spec, ReadsFiles):
        raise UsageError(f"the snapshot has files of state backend {name!r}, which says that it has none")
    return spec


def _loaded(name: str, found: object) -> type[BackendSpec]:
    if not (isinstance(found, type) and issubclass(found, BackendSpec)):
        raise ConfigurationError(f"the entry point of state backend {name!r} is {found!r}, not a BackendSpec")
    return found
