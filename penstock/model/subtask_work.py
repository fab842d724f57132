"""What a subtask did in an epoch and how long it took, and the figures that people watch."""

import msgspec


class PassedRows(msgspec.Struct, frozen=True, array_like=True):
    """Rows of one operator."""

    rows_in: int = 0
    rows_out: int = 0


class SubtaskWork(msgspec.Struct, frozen=True, array_like=True):
    """How a subtask has spent one epoch, in microseconds, and the rows of its inputs and operators."""

    began_ms: int = 0
    """When its run began, by the clock of its machine."""
    functions_us: int = 0
    """What the run did apart from the rest: the user's functions, and turning rows into objects and back."""
    state_us: int = 0
    """In state backends: reading ahead, time to live, the end of the epoch. Single accesses count as functions."""
    sealing_us: int = 0
    """`snapshot_state`, the end of transactions, the synchronous part of a snapshot."""
    handing_us: int = 0
    """Handing on the output of the epoch before: the subtask waits for the readers of its output."""
    inputs: list[int] = []
    """Rows by input edge."""
    operators: list[PassedRows] = []
    """By position in the stage."""

    @property
    def busy_us(self) -> int:
        """All but waiting and handing on."""
        return self.functions_us + self.state_us + self.sealing_us


class SubtaskFigures(msgspec.Struct, frozen=True, rename="kebab"):
    """What a subtask has done since the start of the attempt, and what it does now."""

    vertex: str
    subtask: int
    rows_in: int = 0
    rows_out: int = 0
    rows_in_per_s: float = 0.0
    rows_out_per_s: float = 0.0
    busy_ms_per_s: float = 0.0
    back_pressured_ms_per_s: float = 0.0
    idle_ms_per_s: float = 1000.0
    """The three add up to 1000."""
    busy_ms: int = 0
    back_pressured_ms: int = 0
    idle_ms: int = 0
    watermark: int | None = None
    """None: there is none yet."""
    rows_waiting: int = 0
    """Rows that an unaligned checkpoint has left for the next epoch."""
    inputs: list[int] = []
    """Rows by input edge of the vertex."""
    operators: list[PassedRows] = []
    """Rows in and out of each operator of the vertex, in order."""
