"""Batch or streaming: which of the two a program runs as, and what that changes in its plan."""

from collections.abc import Sequence

from penstock.errors import UsageError
from penstock.graph.creation_site import site_line
from penstock.graph.stream_graph import Node, OperatorSpec, SourceSpec
from penstock.model.epoch_functions import KeyedEpochFunction
from penstock.model.execution import RuntimeExecutionMode

FINAL_REDUCE = "final_reduce"
"""The kind of a reduce in batch mode: it emits one value per key, after the key's last record."""


def choose_batch(nodes: Sequence[Node], mode: RuntimeExecutionMode) -> bool:
    """Return whether the program runs in batch mode: it was asked to, or it may (AUTOMATIC) and all its sources end."""
    sources = [node for node in nodes if isinstance(node.payload, SourceSpec)]
    unbounded = [node for node in sources if not node.payload.bounded]
    if mode is RuntimeExecutionMode.BATCH and unbounded:
        raise UsageError(
            f"source {_named(unbounded[0])} never ends, and a program in BATCH mode needs all of its input; use a "
            f"bounded source, such as from_dataframe() with a DataFrame of spark.read or a FileSource without "
            f"monitor_continuously(), or run the program with RuntimeExecutionMode.AUTOMATIC or STREAMING"
        )
    batch = mode is RuntimeExecutionMode.BATCH or (mode is RuntimeExecutionMode.AUTOMATIC and not unbounded)
    static = [node for node in sources if node.payload.kind == "static"]
    if static and not batch:
        beside = f" beside {_named(unbounded[0])}, which never ends" if unbounded else ""
        raise UsageError(
            f"source {_named(static[0])} has a DataFrame that is not streaming{beside}; read it with "
            f"env.spark.readStream instead of .read, pass a small one to env.from_collection(df.collect()), or, if "
            f"every source ends, call env.set_runtime_mode(RuntimeExecutionMode.BATCH)"
        )
    if batch:
        _refuse_initial_state(nodes)
    return batch


def _refuse_initial_state(nodes: Sequence[Node]) -> None:
    """In batch mode a subtask has the state of one key at a time."""
    for node in nodes:
        function = node.payload.function if isinstance(node.payload, OperatorSpec) else None
        if isinstance(function, KeyedEpochFunction) and function.has_initial_records:
            raise UsageError(
                f"operator {_named(node)} has an initial_state=, which batch mode does not load; run the program with "
                f"RuntimeExecutionMode.STREAMING, or give the processor those rows as input"
            )


def kind_in_mode(kind: str, *, batch: bool) -> str:
    """The operator that runs a function of this kind in batch or in streaming mode."""
    return FINAL_REDUCE if batch and kind == "reduce" else kind


def _named(node: Node) -> str:
    return f"{node.name!r} ({site_line(node.created)})" if node.created else repr(node.name)
