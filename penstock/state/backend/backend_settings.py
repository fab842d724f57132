"""Which backend keeps the keyed state of a job, and how."""

from dataclasses import dataclass

from penstock.model.options import checkpointing_options
from penstock.state.backend.backend_spec import BackendSpec
from penstock.state.heap.hashmap_spec import HashMapSpec
from penstock.state.ttl.rules import SweepSettings


@dataclass(frozen=True)
class BackendSettings:
    """What every TaskManager must know of a job's backend."""

    spec: BackendSpec = HashMapSpec()
    incremental: bool = checkpointing_options.INCREMENTAL.default
    """A checkpoint holds only what changed since the one before; otherwise each stands alone."""
    compression: bool | None = None
    """Whether snapshots are compressed; None: tables that are large enough for it to pay."""
    ttl_sweep: SweepSettings = SweepSettings()
    """How fast expired entries go that nobody reads."""

    @property
    def kind(self) -> str:
        """The backend's name."""
        return self.spec.name
