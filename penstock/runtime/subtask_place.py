"""Which subtask of which job a process runs, and what it runs with: plain data."""

from dataclasses import dataclass, field

from penstock.graph.job_graph import StagePlan
from penstock.model.ids import StageId, SubtaskId
from penstock.model.key_groups import key_group_range
from penstock.runtime.snapshots.spool import MAX_SPOOL_BYTES
from penstock.state.backend.backend_settings import BackendSettings
from penstock.storage.storage import Storage


@dataclass(frozen=True)
class SubtaskPlace:
    """One subtask of one attempt."""

    job_id: str
    attempt: int
    stage: StagePlan
    index: int
    channels: dict[int, int] = field(default_factory=dict)
    """Input edge id -> number of upstream subtasks; edges from sources are not in it."""
    backend: BackendSettings = BackendSettings()
    folder: str = ""
    """Where this process keeps the files of backends and spools."""
    max_spool_bytes: int = MAX_SPOOL_BYTES
    job_parameters: dict[str, str] = field(default_factory=dict)
    storage: Storage | None = None
    """The job's checkpoint folder, if it has one that subtasks write to."""

    @property
    def id(self) -> SubtaskId:
        return SubtaskId(StageId(self.stage.id), self.index)

    @property
    def key_groups(self) -> tuple[int, int]:
        return key_group_range(self.stage.max_parallelism, self.stage.parallelism, self.index)
