"""What a kind of backend is registered as: its name, its settings, how it is opened, and how its own files are read."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

import pyarrow as pa

from penstock.model.configuration import Configuration
from penstock.model.snapshot import StateFile, StateTableInfo
from penstock.state.backend.backend_place import BackendPlace
from penstock.state.backend.keyed_backend import KeyedBackend


class BackendSpec(ABC):
    """One kind of backend with its settings: a frozen dataclass whose fields all have defaults.

    It is pickled with a job's plan, and opened in the TaskManagers.
    """

    name: ClassVar[str]
    """What `state.backend.type` calls it."""
    class_name: ClassVar[str]
    """What Flink, or its author, calls the class: another name for it, and what the REST API shows."""
    on_disk: ClassVar[bool] = False
    """It keeps files in `BackendPlace.folder`."""

    @classmethod
    def of(cls, configuration: Configuration) -> "BackendSpec":
        """The backend with the settings of a job; its keys begin with `state.backend.<name>.`."""
        return cls()

    @abstractmethod
    def open(self, place: BackendPlace) -> KeyedBackend:
        """A new, empty backend. Whoever opens it closes it."""

    @property
    def local_dirs(self) -> tuple[str, ...]:
        """Where its files shall be, in turn for each process; without any, in the temporary folder."""
        return ()


@dataclass(frozen=True)
class StoredFiles:
    """The native files of one operator in a snapshot, and how to get hold of them."""

    files: Sequence[StateFile]
    infos: Sequence[StateTableInfo]
    """The states that they hold."""
    read: Callable[[StateFile], bytes]
    """The checked bytes of a file; several threads may call it."""
    folder: Path
    """Does not exist yet: to put the files into. Whoever reads them removes it."""


@runtime_checkable
class ReadsFiles(Protocol):
    """A BackendSpec whose backends store files of their own in snapshots (`SealedFiles`)."""

    def read_files(
        self, stored: StoredFiles, max_parallelism: int, key_groups: tuple[int, int] | None
    ) -> Iterator[tuple[StateTableInfo, pa.Table]]:
        """The rows of the files, some at a time, of these key groups or of all; every state at least once.

        `max_parallelism` is that of the snapshot. Damage is a CheckpointCorruptError.
        """


@runtime_checkable
class AdoptsFiles(Protocol):
    """A KeyedBackend that can go on with the files of a snapshot as they are. Such a one has a `native_name`."""

    def adopt(self, stored: StoredFiles) -> None:
        """Go on with these files, which hold exactly this backend's key groups. Before anything else is restored."""
