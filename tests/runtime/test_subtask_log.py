"""The log of a TaskManager: every line with the context of the thread that writes it."""

import io
import threading

from penstock.model.ids import Version
from penstock.runtime.process.log_lines import LogContext
from penstock.runtime.process.messages import TaskHeader
from penstock.runtime.process.subtask_log import SubtaskLog, _LoggedStream
from tests.runtime.subtasks import SUBTASK, epoch_header


def contexts(file: io.StringIO) -> list[str]:
    """The lines without their times."""
    return [line.split(" ", 1)[1] for line in file.getvalue().splitlines()]


def test_lines_of_a_subtask_carry_its_epoch_and_others_do_not() -> None:
    log, file = SubtaskLog(), io.StringIO()
    log.process = LogContext("0123abcd" * 4, 2)
    stream = _LoggedStream(file, log)
    stream.write("started\n")
    log.set_subtask(TaskHeader("", SUBTASK, Version(2, 6, "n"), "end", 1, None, epoch_header(7)))
    stream.write("one\ntw")
    thread = threading.Thread(target=stream.write, args=("heartbeat\n",))
    thread.start()
    thread.join()
    stream.write("o\n")
    log.set_subtask(None)
    stream.write("done\n")
    of_subtask = "job=0123abcd attempt=2 epoch=7 subtask=s0/0"
    assert contexts(file) == [
        "job=0123abcd attempt=2 started",
        f"{of_subtask} one",
        "job=0123abcd attempt=2 heartbeat",
        f"{of_subtask} two",
        "job=0123abcd attempt=2 done",
    ]
    assert [line.split(" ", 1)[1] for line in log.tail(2)] == contexts(file)[-2:]
