"""Falling back behind a damaged checkpoint: what it means, as messages for the user (PROTOCOL R24)."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.checkpoint.log.entries import Complete
from penstock.errors import CheckpointError
from penstock.model.options import checkpointing_options
from penstock.model.snapshot import Manifest


@dataclass(frozen=True)
class Damage:
    """A completed checkpoint that cannot be restored, and why."""

    complete: Complete
    error: CheckpointError

    def __str__(self) -> str:
        return f"checkpoint {self.complete.checkpoint} (epoch {self.complete.epoch}) cannot be restored: {self.error}"


@dataclass(frozen=True)
class Fallback:
    """An intact checkpoint that is older than damaged ones; `passed` has those, newest first."""

    manifest: Manifest
    passed: list[Damage]
    last_epoch: int
    """The epoch of the newest checkpoint, also if an earlier attempt has fallen back behind it."""

    @property
    def replayed(self) -> str:
        """Which input is processed again."""
        return f"the input of epochs {self.manifest.epoch + 1} to {self.last_epoch}, and all that followed"

    def warning(self) -> str:
        """What the user must know about the fallback."""
        return (
            f"{'; '.join(map(str, self.passed))}. Going back to checkpoint {self.manifest.checkpoint_id} (epoch "
            f"{self.manifest.epoch}): {self.replayed}, is read and processed again, and what sinks have shown of it "
            f"may be shown again"
        )

    def refusal(self) -> str:
        """Why the job does not fall back by itself, and what can be done."""
        return (
            f"{'; '.join(map(str, self.passed))}. Checkpoint {self.manifest.checkpoint_id} (epoch "
            f"{self.manifest.epoch}) is there, but output up to epoch {self.last_epoch} may be committed "
            f"already: going back would process {self.replayed}, again, and commit its output twice; "
            f"bring the file back, or accept that with `--resume --allow-fallback`"
        )


def nothing_intact(passed: Sequence[Damage]) -> str:
    """Why the job cannot start at all."""
    others = (
        f"no older one is kept ({checkpointing_options.NUM_RETAINED.key})" if len(passed) == 1 else "all are damaged"
    )
    return f"{'; '.join(map(str, passed))}. {others}: bring the file back, or start a new job from the beginning"
