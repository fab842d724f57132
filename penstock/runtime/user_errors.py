"""Calls into the user's code: what it raises becomes one error with the operator's name and the user's traceback."""

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.errors import IncompatibleStateError, PenstockError, UserFunctionError
from penstock.graph.job_graph import OperatorPlan

PACKAGE = str(Path(__file__).parent.parent) + os.sep
USER_ERRORS = (Exception, SystemExit)
"""A function that calls `exit` fails; it does not end the thread that has to undo its epoch."""
SELF_EXPLANATORY_ERRORS = (IncompatibleStateError, UserFunctionError)
"""Errors that are raised as they are: their message needs no context."""


def call_user_code(plan: OperatorPlan | None, where: str, step: Callable[[], Any]) -> Any:
    """Call the step; what it raises becomes a UserFunctionError that names the operator, or `key_by` without a plan."""
    try:
        return step()
    except SELF_EXPLANATORY_ERRORS:
        raise
    except USER_ERRORS as error:
        raise user_error(plan, where, error) from error


def user_error(plan: OperatorPlan | None, where: str, error: BaseException) -> UserFunctionError:
    """The error with the user's own frames only; one of our errors without such frames keeps its message alone."""
    report = traceback.TracebackException.from_exception(error)
    frames = list(report.stack)
    own = [frame for frame in frames if not frame.filename.startswith(PACKAGE)]
    if own:
        report.stack = traceback.StackSummary.from_list(own)
    text = str(error) if isinstance(error, PenstockError) and not own else "".join(report.format(chain=True))
    return UserFunctionError(plan.name if plan else "key_by", where, text)
