"""The state backend of a job and its settings."""

from dataclasses import dataclass

from penstock.model.options import checkpointing_options
from penstock.state.backend.backend_spec import BackendSpec
from penstock.state.heap.hashmap_spec import HashMapSpec
from penstock.state.ttl.rules import SweepSettings


@dataclass(frozen=True)
class BackendSettings:
    """What every TaskManager needs to know about a job's backend."""

    spec: BackendSpec = HashMapSpec()
    incremental: bool = checkpointing_options.INCREMENTAL.default
    """Whether a checkpoint holds only what changed since the previous one."""
    compression: bool | None = None
    """Whether snapshots are compressed; None: only tables that are large enough to benefit."""
    ttl_sweep: SweepSettings = SweepSettings()
    """How fast expired entries are removed that nobody reads."""

    @property
    def kind(self) -> str:
        """The backend's name."""
        return self.spec.name
