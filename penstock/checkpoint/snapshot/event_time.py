"""Whether event time has ended at a snapshot, and how another job goes on from there."""

import msgspec

from penstock.model.snapshot import Manifest
from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK


def has_ended(manifest: Manifest) -> bool:
    """Whether event time had ended at this checkpoint or savepoint: every later row would be late."""
    return bool(manifest.subtasks) and all(part.watermark >= MAX_WATERMARK for part in manifest.subtasks)


def begin_time_anew(manifest: Manifest) -> Manifest:
    """The manifest for another job that goes on after the end of event time: otherwise every row would be late.

    The timestamps that generators have seen stay, so event time continues from the rows that were read.
    """
    return msgspec.structs.replace(
        manifest,
        subtasks=[msgspec.structs.replace(part, watermark=MIN_WATERMARK) for part in manifest.subtasks],
        watermarks={uid: mark for uid, mark in manifest.watermarks.items() if mark < MAX_WATERMARK},
        final=False,
    )
