"""What a case of the matrix is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.faults.matrix.cells import CellRequest
from tests.faults.matrix.scene import Scene


@dataclass(frozen=True)
class MatrixCase:
    """One job and the faults it meets.

    `run` brings them about and returns, for each of `faults`, what shows that it hit. It raises AssertionError if one
    did not, or if the job did not answer as it must. Afterwards the scene is judged: nothing lost, nothing doubled.
    """

    faults: tuple[str, ...]
    """Such as `F12 disk full`."""
    group: str
    run: Callable[[Scene], Sequence[str]]
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Factors that cannot be drawn."""
    needs: tuple[str, ...] = ()
    """Tools of `tools.missing`."""

    @property
    def cell_request(self) -> CellRequest:
        return CellRequest(self.group, self.fixed)

    @property
    def name(self) -> str:
        """The function's name: what `--case` takes besides a fault's id."""
        return self.run.__name__
