"""When a job may be taken from its driver: the driver is gone, or it has been silent for too long.

A driver that was stopped, or whose machine sleeps, still exists. Taking its job is safe at any time: the claim in the
job log fences it (PROTOCOL R4), so that it completes and deletes nothing when it wakes up. The limit only keeps a
second start by mistake from ending a job that is at work.
"""

import time
from collections.abc import Callable

from penstock.control.registry import JobRecord, Registry
from penstock.errors import JobConflictError
from penstock.model.options import execution_options

LOOK_AGAIN_S = 3.0
"""A driver that is at work writes its record within this time. A clock that was set only makes the record look old."""


def require_free(
    registry: Registry, name: str, silence_limit_ms: int, pause: Callable[[float], None] = time.sleep
) -> list[JobRecord]:
    """The silent drivers of jobs of that name; JobConflictError if one of their drivers is at work."""
    running = [record for record in registry.list() if record.name == name and registry.is_running(record)]
    silent = [record for record in running if registry.silence_ms(record) >= silence_limit_ms]
    if silent:
        pause(LOOK_AGAIN_S)
        silent = [record for record in silent if record in registry.list()]
    if len(silent) < len(running):
        ids = ", ".join(record.job_id for record in running if record not in silent)
        raise JobConflictError(
            f"job {name!r} is running ({ids}); cancel it before it is resumed (a driver that says nothing for "
            f"{silence_limit_ms / 1000:g} s, {execution_options.DRIVER_TIMEOUT.key}, can be replaced)"
        )
    return silent
