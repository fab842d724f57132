"""The log of a TaskManager: every line with the context of the thread that writes it."""

import io
import logging
import threading

from penstock.model.ids import Version
from penstock.runtime.process.log_lines import LogContext
from penstock.runtime.process.messages import TaskHeader
from penstock.runtime.process.subtask_log import LogFile, SubtaskLog, _LoggedStream, _LogHandler
from tests.runtime.subtasks import SUBTASK, epoch_header


def contexts(file: io.StringIO) -> list[str]:
    """The lines without their times."""
    return [line.split(" ", 1)[1] for line in file.getvalue().splitlines()]


def printed(file: io.StringIO, log: SubtaskLog) -> _LoggedStream:
    return _LoggedStream(file, LogFile(file, log), "stdout", "INFO")


def test_lines_of_a_subtask_carry_its_epoch_and_others_do_not() -> None:
    log, file = SubtaskLog(), io.StringIO()
    log.process = LogContext("0123abcd" * 4, 2)
    stream = printed(file, log)
    stream.write("started\n")
    log.set_subtask(TaskHeader("", SUBTASK, Version(2, 6, "n"), "end", 1, None, epoch_header(7)))
    stream.write("one\ntw")
    thread = threading.Thread(target=stream.write, args=("heartbeat\n",))
    thread.start()
    thread.join()
    stream.write("o\n")
    log.set_subtask(None)
    stream.write("done\n")
    of_subtask = "INFO  stdout job=0123abcd attempt=2 epoch=7 subtask=s0/0"
    assert contexts(file) == [
        "INFO  stdout job=0123abcd attempt=2 | started",
        f"{of_subtask} | one",
        "INFO  stdout job=0123abcd attempt=2 | heartbeat",
        f"{of_subtask} | two",
        "INFO  stdout job=0123abcd attempt=2 | done",
    ]
    assert [line.split(" ", 1)[1] for line in log.tail(2)] == contexts(file)[-2:]


def test_a_record_of_logging_has_its_level_and_the_name_of_its_logger() -> None:
    log, file = SubtaskLog(), io.StringIO()
    log.process = LogContext("0123abcd" * 4, 2)
    handler = _LogHandler(LogFile(file, log))
    for name, level, text in (("penstock.restore", logging.INFO, "done"), ("my.app", logging.CRITICAL, "a\nb")):
        handler.emit(logging.LogRecord(name, level, "", 0, text, None, None))
    assert file.getvalue().splitlines()[0].endswith("Z INFO  restore job=0123abcd attempt=2 | done")
    assert file.getvalue().splitlines()[1].endswith("Z ERROR my.app job=0123abcd attempt=2 | a")
    assert log.tail(3)[-1] == "b"  # the rest of a longer text follows as it is


def test_routine_lines_of_penstock_are_logged_but_explain_no_failure() -> None:
    log, file = SubtaskLog(), io.StringIO()
    handler = _LogHandler(LogFile(file, log))
    for name, level in (("penstock.taskmanager", 20), ("penstock.spool", 30), ("model", 20)):
        handler.emit(logging.LogRecord(name, level, __file__, 1, "text", None, None))
    assert contexts(file) == ["INFO  taskmanager | text", "WARN  spool | text", "INFO  model | text"]
    assert [line.split(" ", 1)[1] for line in log.tail(9)] == ["WARN  spool | text", "INFO  model | text"]
