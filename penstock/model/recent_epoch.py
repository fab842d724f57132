"""An epoch that was committed, as people watch it."""

import msgspec


class EpochPhases(msgspec.Struct, frozen=True, rename="kebab"):
    """Where an epoch's time went, in milliseconds. Of subtasks that work side by side, the slowest one counts."""

    scheduling_ms: int = 0
    """From the start of the epoch to the first task of its Spark job."""
    reading_ms: int = 0
    """Reading the sources, SQL, the exchange, and waiting for rows."""
    functions_ms: int = 0
    state_ms: int = 0
    sealing_ms: int = 0
    committing_ms: int = 0
    """From the last subtask's report to the commit."""


class RecentEpoch(msgspec.Struct, frozen=True, rename="kebab"):
    """One committed epoch of the attempt that runs."""

    epoch: int
    started_ms: int
    committed_ms: int
    rows_in: int
    rows_out: int
    checkpoint: int | None = None
    """The checkpoint whose barrier ended it."""
    phases: EpochPhases = EpochPhases()
    """They add up to its duration."""
