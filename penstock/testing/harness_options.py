"""How a harness runs."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from penstock.errors import ArgumentError
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.model.execution import CheckpointingMode
from penstock.model.snapshot import InlineLimits
from penstock.runtime.snapshots.local_copies import LocalBackup
from penstock.state.backend.backend_settings import BackendSettings
from penstock.storage.memory import MemoryStorage
from penstock.storage.storage import Storage
from penstock.testing.clocks import ManualClock

JOB_ID = "0" * 32
_INTERNAL = ("function", "created")


@dataclass(frozen=True)
class HarnessOptions:
    """How a harness runs."""

    seed: int | None = None
    """Splits records into epochs at random places; None: one epoch between two control items."""
    clock: ManualClock = field(default_factory=ManualClock)
    storage: Storage = field(default_factory=MemoryStorage)
    """Where checkpoints are. A second harness on the storage of another takes its job over."""
    crashed: Callable[[], None] = lambda: None
    """Called after each crash, before anything is recovered."""
    lost_after: Callable[[int], int | None] = lambda tries: None
    """After how many batches and barriers a task is lost that was lost so many times before; None: not at all.

    Like Spark, the harness tries it again. No other process ends.
    """
    backend: BackendSettings = BackendSettings()
    limits: InlineLimits | None = None
    """Which states go into the manifest; None: the defaults."""
    local: LocalBackup = LocalBackup()
    """Second copies of keyed state, which survive a crash."""
    retained: int = 1
    """How many checkpoints are kept."""
    allow_fallback: bool = False
    """Go back behind a damaged checkpoint although output would be committed twice."""
    warn: Callable[[str], None] = lambda text: None
    """Called with a warning about a damaged checkpoint that is skipped."""
    start: StartOptions = StartOptions()
    """The savepoint or checkpoint that the job starts from; it is fed what comes behind that."""
    spool_after: Callable[[], int | None] = lambda: None
    """For each epoch: after how many milliseconds rows that were not worked on wait for the next; None: never."""
    job_parameters: dict[str, str] = field(default_factory=dict)
    """What functions read with `RuntimeContext.get_job_parameter`."""
    mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE


def check_settings(settings: Mapping[str, object], program: type) -> None:
    """Raise for a setting that neither the harness nor its program has."""
    known = sorted(
        field.name for part in (program, HarnessOptions) for field in fields(part) if field.name not in _INTERNAL
    )
    for name in settings:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}=?" if close else f"there are {', '.join(f'{word}=' for word in known)}"
            raise ArgumentError(f"a harness has no setting {name}=; {hint}")
