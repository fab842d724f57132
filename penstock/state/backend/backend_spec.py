"""`BackendSpec`: what a backend is registered as. Its name, its settings, how to open it, how to read its own files."""

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
    """A type of backend with its settings: a frozen dataclass whose fields all have defaults.

    It is pickled with the job's plan and opened in the TaskManagers.
    """

    name: ClassVar[str]
    """Its name in `state.backend.type`."""
    class_name: ClassVar[str]
    """The name of the class, in Flink if it has one. Accepted as an alias, and shown by the REST API."""
    on_disk: ClassVar[bool] = False
    """Whether it keeps files in `BackendPlace.folder`."""

    @classmethod
    def of(cls, configuration: Configuration) -> "BackendSpec":
        """The backend with the settings of a job. The keys of its settings begin with `state.backend.<name>.`."""
        return cls()

    @abstractmethod
    def open(self, place: BackendPlace) -> KeyedBackend:
        """A new, empty backend. The caller closes it."""

    @property
    def local_dirs(self) -> tuple[str, ...]:
        """The folders for its files, which processes use in turn; empty: the temporary folder."""
        return ()


@dataclass(frozen=True)
class StoredFiles:
    """The native files of one operator in a snapshot, and how to read them."""

    files: Sequence[StateFile]
    infos: Sequence[StateTableInfo]
    """The states that they contain."""
    read: Callable[[StateFile], bytes]
    """Returns the verified bytes of a file. Thread-safe."""
    folder: Path
    """Where to put the files. It does not exist yet; the reader of the files removes it."""


@runtime_checkable
class ReadsFiles(Protocol):
    """A BackendSpec whose backends store native files in snapshots (`SealedFiles`)."""

    def read_files(
        self, stored: StoredFiles, max_parallelism: int, key_groups: tuple[int, int] | None
    ) -> Iterator[tuple[StateTableInfo, pa.Table]]:
        """The rows of the files in batches, of these key groups or of all (None). Every state occurs at least once.

        `max_parallelism` is that of the snapshot. Raises CheckpointCorruptError if a file is damaged.
        """


@runtime_checkable
class AdoptsFiles(Protocol):
    """A KeyedBackend that can continue with the files of a snapshot as they are. It has a `native_name`."""

    def adopt(self, stored: StoredFiles) -> None:
        """Continue with these files, which hold exactly this backend's key groups. Called before any `restore`."""
