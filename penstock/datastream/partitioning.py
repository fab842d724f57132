"""How the records of a stream are divided: by key, or by a partitioner of the program."""

from collections.abc import Callable
from typing import Any

from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.record_types import column_key_types, selector_key_types
from penstock.errors import UsageError
from penstock.graph.callables import CallableKeySelector, CallablePartitioner, as_function
from penstock.graph.function_checks import check_function
from penstock.graph.stream_graph import CustomPartition, KeyBy
from penstock.model.functions import KeySelector, Partitioner
from penstock.model.types import TypeInformation


def key_by_columns(columns: tuple[str, ...], record_type: TypeInformation) -> KeyBy:
    """By columns of the record, which the JVM hashes."""
    return KeyBy(columns, None, column_key_types(columns, record_type))


def key_by_function(key_selector: Callable[[Any], Any] | KeySelector, key_type: Any) -> KeyBy:
    """By a function of the record."""
    selector = as_function(key_selector, KeySelector, CallableKeySelector)
    check_function(selector, "key_by")
    return KeyBy(None, selector, selector_key_types(key_type))


def custom_partition(
    partitioner: Callable[[Any, int], int] | Partitioner,
    key_selector: Callable[[Any], Any] | KeySelector,
    config: CheckpointConfig,
) -> CustomPartition:
    """By a partitioner of the key. Raises UsageError where checkpoints may hold rows on their way to it."""
    if config.is_unaligned_checkpoints_enabled() and not config.is_force_unaligned_checkpoints():
        raise UsageError(
            "Unaligned checkpoints are currently not supported for custom partitioners, as rescaling is not "
            "guaranteed to work correctly; use key_by(), or "
            "env.get_checkpoint_config().set_force_unaligned_checkpoints()"
        )
    chooses = as_function(partitioner, Partitioner, CallablePartitioner)
    if type(chooses).open is not Partitioner.open:
        raise UsageError(
            f"{type(chooses).__name__}.open() would never be called: a partitioner runs between operators and has "
            f"no runtime context; prepare what it needs in __init__ or at the first call of partition()"
        )
    selector = as_function(key_selector, KeySelector, CallableKeySelector)
    check_function(chooses, "partition_custom")
    check_function(selector, "key_by")
    return CustomPartition(chooses, selector)
