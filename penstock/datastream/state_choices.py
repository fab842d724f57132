"""The state backend and the checkpoint storage that a program has set as objects, and the settings they stand for."""

from dataclasses import dataclass

from penstock.datastream.checkpoint_storage import CheckpointStorage
from penstock.datastream.current_backends import StateBackend
from penstock.model.configuration import Configuration


@dataclass
class StateChoices:
    """Both can change until the job starts. They win over all other settings."""

    backend: StateBackend | None = None
    storage: CheckpointStorage | None = None

    def apply(self, configuration: Configuration) -> Configuration:
        """The settings with the choices in them. The storage of a legacy backend wins over `storage`."""
        applied = Configuration(configuration)
        legacy = self.backend.own_storage() if self.backend is not None else None
        storage = legacy or self.storage
        if storage is not None:
            storage.record(applied)
        if self.backend is not None:
            self.backend.record(applied)
        return applied
