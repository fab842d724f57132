"""Job records for tests."""

import os
import socket
from typing import Any

from penstock.control.registry import JobRecord

A_ID = "a" * 32
B_ID = "ab" * 16
NO_PID = 2**22 + 1
"""Above the highest pid that Linux gives."""


def job_record(job_id: str = A_ID, **changes: Any) -> JobRecord:
    """A running job whose driver is this process."""
    values: dict[str, Any] = {
        "job_id": job_id,
        "name": "totals",
        "status": "RUNNING",
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "started_ms": 1_700_000_000_000,
        "updated_ms": 10**14,
        "log_dir": "logs",
    }
    return JobRecord(**{**values, **changes})
