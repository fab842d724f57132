"""The state backend and the checkpoint storage that a program has set as objects, and what they mean as settings."""

from dataclasses import dataclass

from penstock.datastream.checkpoint_storage import CheckpointStorage
from penstock.datastream.state_backend import StateBackend
from penstock.model.configuration import Configuration


@dataclass
class StateChoices:
    """Both may still be changed until the job starts. They go before the settings of any other origin."""

    backend: StateBackend | None = None
    storage: CheckpointStorage | None = None

    def settle(self, configuration: Configuration) -> Configuration:
        """The settings with the choices in them: a legacy backend's own storage goes before `storage`."""
        settled = Configuration(configuration)
        legacy = self.backend.own_storage() if self.backend is not None else None
        storage = legacy or self.storage
        if storage is not None:
            storage.record(settled)
        if self.backend is not None:
            self.backend.record(settled)
        return settled
