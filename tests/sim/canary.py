"""A planted bug: runs with it must fail, or the simulator finds nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.checkpoint import retention


@contextmanager
def planted(is_planted: bool) -> Iterator[None]:  # noqa: FBT001
    """The block in which files are deleted without a `discard` in the log (PROTOCOL R3 broken)."""
    if not is_planted:
        yield
        return
    saved = retention._discard
    retention._discard = lambda log, checkpoints, files: None
    try:
        yield
    finally:
        retention._discard = saved
