"""All cases of the matrix, and which of the faults reliability F01 to F29 is shown where.

F01 to F15, F17, F20 to F29 (but for those below): cases here, found by their id.
F16 object stores: tests/storage/test_object_storage.py (`test_f16_…`), with a real S3 protocol server.
F18 zombie drivers: tests/faults/fencing.py, at every crash point of the driver.
F19 several drivers started together: tests/faults/starts.py.
F25, F27, F28, F29 besides in one process: tests/runtime/test_taskmanager.py, tests/sim, tests/checkpoint.
"""

from tests.faults.matrix import damage, processes, storage, work
from tests.faults.matrix.case import MatrixCase

MATRIX: tuple[MatrixCase, ...] = (*processes.CASES, *damage.CASES, *storage.CASES, *work.CASES)


def chosen(text: str | None) -> list[MatrixCase]:
    """Those of a fault (`F12`) or of a name (`disk_full`); all without one."""
    return [
        case
        for case in MATRIX
        if text is None or text == case.name or any(fault.split()[0] == text for fault in case.faults)
    ]
