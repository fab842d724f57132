"""What the machine says of a process of a job."""

import socket

import psutil

from penstock.control.registry import CLOCK_SLACK_MS, ProcessRecord
from penstock.control.server_contract import LOCAL_NAMES
from penstock.model.metric_readings import Figure


def process_figures(process: ProcessRecord, updated_ms: int) -> dict[str, Figure]:
    """Memory, CPU time and threads; nothing of a process that is on another machine, or gone.

    `updated_ms`: when the record was written. A process that is younger has only reused the number.
    """
    if process.host not in (socket.gethostname(), *LOCAL_NAMES):  # a TaskManager's host is the address it listens on
        return {}
    try:
        found = psutil.Process(process.pid)
        with found.oneshot():
            if found.create_time() * 1000 > updated_ms + CLOCK_SLACK_MS:
                return {}
            times = found.cpu_times()
            return {
                "Status.Process.Memory.Resident": found.memory_info().rss,
                "Status.Process.CPU.TimeMs": int(1000 * (times.user + times.system)),
                "Status.Process.Threads.Count": found.num_threads(),
            }
    except psutil.Error:
        return {}
