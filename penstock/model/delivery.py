"""What one source or one sink contributes to the guarantee of a job, for the guarantee report.

A source or sink answers with its property `delivery`. It speaks for itself alone: the report combines the answers with
the checkpointing mode. Adding a source or sink never changes the report's code.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Delivery:
    """What happens to records at a source or sink after a failure, in a job with exactly-once checkpoints.

    A source loses records if it cannot be read again from a position. A sink repeats records if it shows them before
    their checkpoint is complete, or cannot tell that it has written them.

    >>> Delivery.exactly_once().is_exact
    True
    """

    may_lose: bool = False
    may_repeat: bool = False
    is_idempotent: bool = False
    """A sink: writing a record again leaves the same final result, so that repeated records do no harm."""
    reason: str = ""
    """Why records are lost or repeated, as a clause: "its rows are not kept anywhere"."""
    remedy: str = ""
    """What to do about it, as an imperative: "write to a FileSink"."""

    @staticmethod
    def exactly_once(*, is_idempotent: bool = False) -> "Delivery":
        """A source that can be replayed from the position in a checkpoint, or a sink that commits with it.

        A sink that is idempotent too keeps its final result exact even in AT_LEAST_ONCE mode.
        """
        return Delivery(is_idempotent=is_idempotent)

    @staticmethod
    def idempotent(reason: str) -> "Delivery":
        """A sink that may write a record again, which then replaces what the first write left: an upsert by key."""
        return Delivery(may_repeat=True, is_idempotent=True, reason=reason)

    @staticmethod
    def at_least_once(reason: str, remedy: str) -> "Delivery":
        """A sink that shows some records again after a failure."""
        return Delivery(may_repeat=True, reason=reason, remedy=remedy)

    @staticmethod
    def at_most_once(reason: str, remedy: str) -> "Delivery":
        """A source or sink that loses some records in a failure."""
        return Delivery(may_lose=True, reason=reason, remedy=remedy)

    @staticmethod
    def unknown(reason: str, remedy: str) -> "Delivery":
        """A source or sink that may lose records and may repeat others."""
        return Delivery(may_lose=True, may_repeat=True, reason=reason, remedy=remedy)

    @property
    def is_exact(self) -> bool:
        """Neither loses nor repeats."""
        return not (self.may_lose or self.may_repeat)
