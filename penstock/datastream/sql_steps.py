"""Steps of SQL that run in the JVM, before any operator in Python."""

from typing import Any

from penstock.errors import ArgumentError, UsageError
from penstock.graph.stream_graph import JvmOp, JvmSpec, Node
from penstock.model.types import TypeInformation

_IN_PYTHON = {"where": "filter(lambda r: ...)", "with_column": "map(...)", "select": "map(...)"}


def sql_text(text: object, method: str) -> str:
    """The SQL that was given to a method. Raises ArgumentError for anything else."""
    if not isinstance(text, str) or not text.strip():
        raise ArgumentError(f"{method}() takes SQL as text, not {text!r}; for a Python function use map() or filter()")
    return text


def sql_step(node: Node, op: JvmOp) -> tuple[JvmSpec, TypeInformation]:
    """The step after a node, and the type of its records."""
    before = _frame(node, op[0])
    from penstock.spark.dataframe_checks import check_source, describe
    from penstock.spark.source_frames import apply_sql

    frame = apply_sql(before, op)
    check_source(frame, replayable=True)  # its sources were checked by from_dataframe()
    return JvmSpec(op, frame), describe(frame)


def _frame(node: Node, method: str) -> Any:
    """The DataFrame behind a node. An error if there is none, or if a Python operator comes in between."""
    if node.kind == "source" and node.payload.kind in ("dataframe", "static"):
        return node.payload.object
    if isinstance(node.payload, JvmSpec):
        return node.payload.frame
    raise UsageError(
        f"{method}() is SQL in the JVM and works only on a stream of from_dataframe() before any operator in Python; "
        f"this stream comes from {node.name!r}: use {_IN_PYTHON[method]} here, or move {method}() up"
    )
