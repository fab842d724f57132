"""An epoch that was committed, as people watch it."""

import msgspec


class RecentEpoch(msgspec.Struct, frozen=True, rename="kebab"):
    """One committed epoch of the attempt that runs."""

    epoch: int
    started_ms: int
    committed_ms: int
    rows_in: int
    rows_out: int
    checkpoint: int | None = None
    """The checkpoint whose barrier ended it."""
