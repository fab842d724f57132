"""When another driver may take over a job: its driver is gone, or has been silent for too long.

A driver that is suspended, or whose machine sleeps, still exists. Taking over its job is always safe: the claim in the
job log fences the old driver (PROTOCOL R4), so that it completes and deletes nothing when it wakes up. The limit only
keeps an accidental second start from ending a job that is running well.
"""

import time
from collections.abc import Callable

from penstock.control.registry import JobRecord, Registry
from penstock.errors import JobConflictError
from penstock.model.options import execution_options

RECHECK_S = 3.0
"""A working driver writes its record within this time, even if a changed clock makes the record look old."""


def require_free(
    registry: Registry, name: str, silence_limit_ms: int, pause: Callable[[float], None] = time.sleep
) -> list[JobRecord]:
    """The silent drivers of jobs with this name; JobConflictError if one of their drivers is working."""
    running = [record for record in registry.list() if record.name == name and registry.is_running(record)]
    silent = [record for record in running if registry.silence_ms(record) >= silence_limit_ms]
    if silent:
        pause(RECHECK_S)
        silent = [record for record in silent if record in registry.list()]
    if len(silent) < len(running):
        ids = ", ".join(record.job_id for record in running if record not in silent)
        raise JobConflictError(
            f"job {name!r} is running ({ids}); cancel it before you resume it (a driver that is silent for "
            f"{silence_limit_ms / 1000:g} s, {execution_options.DRIVER_TIMEOUT.key}, can be replaced)"
        )
    return silent
