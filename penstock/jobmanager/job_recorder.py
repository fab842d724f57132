"""Keeps a job's record in the registry up to date, as long as this driver owns the job."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress

from penstock.control.registry import JobRecord, Registry
from penstock.errors import JobNotFoundError, StorageError

RECORD_INTERVAL_S = 1.0


class JobRecorder:
    """Writes the record at every change and about once a second; also passes it to `report`. Thread safe."""

    def __init__(
        self, registry: Registry, read: Callable[[], JobRecord], report: Callable[[JobRecord], None] | None
    ) -> None:
        """`read` gives the record as it is now."""
        self._registry = registry
        self._read = read
        self._report = report
        self._lock = threading.Lock()
        self._disowned = False

    def start(self, ended: threading.Event) -> None:
        """Write the record until the job has ended."""

        def keep() -> None:
            while not ended.wait(RECORD_INTERVAL_S):
                self.write_if_possible()

        threading.Thread(target=keep, name="job-record", daemon=True).start()

    def disown(self) -> None:
        """Another driver has taken the job: the record is about that one from now on."""
        self._disowned = True

    def write_if_possible(self) -> None:
        """Write the record. A registry that cannot be written must not keep a job from running or from ending."""
        with suppress(StorageError):
            self.write()

    def write(self) -> None:
        """Write the record. Raises StorageError."""
        with self._lock:
            record = self._read()
            if self._is_own(record):
                self._registry.write(record)
            if self._report is not None:
                self._report(record)

    def _is_own(self, record: JobRecord) -> bool:
        """Whether the record in the registry is still about this driver."""
        if self._disowned or record.attempt == 0:
            return not self._disowned
        try:
            found = self._registry.read(record.job_id)
        except (JobNotFoundError, StorageError):
            return True
        return found.pid == os.getpid() or found.attempt <= record.attempt
