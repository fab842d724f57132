"""Calls into the user's code: what it raises becomes one error that names the place in the program and the record."""

import os
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from penstock.errors import IncompatibleStateError, InvalidKeyError, PenstockError, UserFunctionError
from penstock.graph.creation_site import PACKAGE, is_internal
from penstock.graph.job_graph import EdgePlan, OperatorPlan
from penstock.model.readable_values import shortened
from penstock.model.row import Row
from penstock.runtime.process.passed_environment import withheld_hint

USER_ERRORS = (Exception, SystemExit)
"""A function that calls `exit` fails; it does not end the thread that has to undo its epoch."""
SELF_EXPLANATORY_ERRORS = (IncompatibleStateError, InvalidKeyError, UserFunctionError)
"""Errors that are raised as they are: their message needs no context."""
UNKNOWN = object()
"""There is no current key, or no record."""
CORRUPT_COLUMN = "_corrupt_record"
"""Spark's default for columnNameOfCorruptRecord."""
UNPARSED_HINT = (
    "every field of the record is null: Spark's JSON and CSV readers return such a row for a line that they cannot "
    "parse (mode PERMISSIVE); read with .option('mode', 'FAILFAST') to see the line, or 'DROPMALFORMED' to skip it, "
    f"or keep the line in a string column {CORRUPT_COLUMN!r} of the schema (columnNameOfCorruptRecord)"
)
CORRUPT_HINT = f"its column {CORRUPT_COLUMN!r} holds a line that Spark could not parse; filter such rows out"
ONE_TUPLE_HINT = (
    "if the function returned one tuple, its elements were taken as records: write `yield (a, b)` or `return [(a, b)]` "
    "for one record of several fields"
)
NO_RETURN_HINT = "the function returned None: perhaps it ends without `return`"
_SEVERAL_RECORDS = (
    "flat_map",
    "keyed_flat_map",
    "process",
    "keyed_process",
    "broadcast",
    "keyed_broadcast",
    "keyed_epoch",
    "co_flat_map",
    "keyed_co_flat_map",
    "co_process",
    "keyed_co_process",
    "async_wait",
)
_CALLS_THE_USER = tuple(
    os.path.join(PACKAGE, *parts)
    for parts in (("runtime", "operators"), ("runtime", "exchange_rows.py"), ("graph",), ("model",), ("testing",))
)
"""Code that calls the user's functions: a builtin such as `int` has no frame of its own."""


def call_user_code(plan: OperatorPlan | None, where: str, step: Callable[[], Any]) -> Any:
    """Call the step; what it raises becomes a UserFunctionError that names the operator, or `key_by` without a plan."""
    try:
        return step()
    except SELF_EXPLANATORY_ERRORS:
        raise
    except USER_ERRORS as error:
        raise user_error(plan, where, error) from error


def user_error(plan: OperatorPlan | None, where: str, error: BaseException, facts: str = "") -> UserFunctionError:
    """The error of an operator's function; `facts` are lines about the record."""
    facts = "\n".join(filter(None, (facts, withheld_hint(error))))
    if plan is None:
        return UserFunctionError("key_by", where, describe_error(error), "", facts)
    return UserFunctionError(plan.name, where, describe_error(error), plan.uid, created_lines(plan.created, facts))


def key_error(edge: EdgePlan, error: BaseException, record: Any) -> UserFunctionError:
    """The error of a key selector."""
    facts = created_lines(edge.created, record_facts(record))
    return UserFunctionError("key_by", "when it computed a key", describe_error(error), "", facts)


def partition_error(edge: EdgePlan, error: BaseException, record: Any) -> UserFunctionError:
    """The error of a custom partitioner or of its key selector."""
    facts = created_lines(edge.created, record_facts(record))
    return UserFunctionError("partition_custom", "when it chose a subtask", describe_error(error), "", facts)


def describe_error(error: BaseException) -> str:
    """The error with the user's own frames only. One of our errors has its message first, then the user's lines."""
    report = traceback.TracebackException.from_exception(error)
    if isinstance(error, PenstockError):
        own = [frame for frame in report.stack if not is_internal(frame.filename)]
        return "\n".join([str(error), *(f"  {_line(frame)}" for frame in own)])
    _drop_our_frames(report)
    return "".join(report.format(chain=True))


def _line(frame: traceback.FrameSummary) -> str:
    return f"at {frame.filename}:{frame.lineno}, in {frame.name}" + (f": {frame.line}" if frame.line else "")


def _drop_our_frames(report: traceback.TracebackException) -> None:
    """Remove our frames, also from causes, unless the error is one of this package itself."""
    own = [frame for frame in report.stack if not is_internal(frame.filename)]
    if own or not report.stack or report.stack[-1].filename.startswith(_CALLS_THE_USER):
        report.stack = traceback.StackSummary.from_list(own)
    for cause in (report.__cause__, report.__context__):
        if cause is not None:
            _drop_our_frames(cause)


def probable_cause(plan: OperatorPlan | None, records: Sequence[Any]) -> str:
    """What was probably meant by a function whose records are no rows although rows are declared."""
    if plan is None or plan.output_type.name not in ("ROW", "TUPLE"):
        return ""
    if plan.kind in ("map", "keyed_map", "reduce", "final_reduce") and any(record is None for record in records):
        return "  " + NO_RETURN_HINT
    if plan.kind not in _SEVERAL_RECORDS:
        return ""
    if all(isinstance(record, (tuple, list, dict)) for record in records):
        return ""
    return "  " + ONE_TUPLE_HINT


def created_lines(created: str, facts: str, what: str = "created") -> str:
    """The facts, after the line of the program that created the operator."""
    lines = [f"  {what} at {created}"] if created else []
    return "\n".join([*lines, facts] if facts else lines)


def record_facts(record: Any = UNKNOWN, key: Any = UNKNOWN) -> str:
    """Lines with the key and the record as far as they are known, and what is probably wrong with the record."""
    lines = [] if key is UNKNOWN else [f"  key: {shortened(key)}"]
    if record is not UNKNOWN:
        lines.append(f"  record: {shortened(record)}")
        if is_unparsed(record):
            kept = CORRUPT_COLUMN in record.get_field_names() and record[CORRUPT_COLUMN] is not None
            lines.append(f"  {CORRUPT_HINT if kept else UNPARSED_HINT}")
    return "\n".join(lines)


def is_unparsed(record: Any) -> bool:
    """Whether a record looks like Spark's row for a line that it could not parse."""
    if not isinstance(record, Row) or not record:
        return False
    names = record.get_field_names() or [""] * len(record)
    return all(value is None for name, value in zip(names, record, strict=True) if name != CORRUPT_COLUMN)
