"""What the simulator replaces in the product: randomness, locks, the crash points, and a few limits."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from penstock import failpoint
from penstock.checkpoint import coordinator
from penstock.checkpoint.log import job_log
from penstock.failpoint import Failpoint
from penstock.model import ids
from penstock.runtime import intake
from penstock.runtime.snapshots import snapshot_chain, snapshot_writer
from tests.sim.baton import BatonLock

if TYPE_CHECKING:
    from tests.sim.simulation import Simulation


class SeededSecrets:
    """Names of files and tokens that only the seed decides: their order decides in which order files are deleted."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"names of {seed}")

    def token_hex(self, size: int) -> str:
        return self._random.randbytes(size).hex()


@contextmanager
def patched(world: "Simulation") -> Iterator[None]:
    """The block with the world's randomness, locks and limits, and every crash point reported to it."""
    profile = world.profile
    locks = SimpleNamespace(Lock=lambda: BatonLock(world.rest))
    changes: list[tuple[Any, str, Any]] = [
        (ids, "secrets", SeededSecrets(world.seed)),
        (job_log, "threading", locks),
        (coordinator, "threading", locks),
        (job_log, "BASE_EVERY", profile.base_every),
        (snapshot_writer, "INLINE_LIMIT_BYTES", profile.inline_limit_bytes),
        (snapshot_chain, "MAX_DELTAS", profile.max_deltas),
        (intake, "FIRST_PORTION", 1),
        (intake, "MAX_PORTION", 1),
        (failpoint, "_reach", world.reach),
    ]
    saved = [(place, name, getattr(place, name)) for place, name, _ in changes]
    for place, name, value in changes:
        setattr(place, name, value)
    failpoint.arm(Failpoint("simulator", "raise"))  # unarmed points are not reported
    try:
        yield
    finally:
        failpoint.disarm()
        for place, name, value in saved:
            setattr(place, name, value)
