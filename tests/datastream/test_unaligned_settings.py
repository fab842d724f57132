"""Unaligned checkpoints and what does not go with them (K10, K12)."""

from typing import Any

import pytest

from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.errors import UsageError
from penstock.model.options.catalogue import settings_without_effect

PARTITIONERS = "Unaligned checkpoints are currently not supported for custom partitioners, as rescaling is not"


@pytest.fixture
def env(spark: Any) -> Env:
    return Env.get_execution_environment()


def test_k12_a_partitioner_of_one_s_own_is_refused_with_unaligned_checkpoints(env: Env) -> None:
    stream = env.from_collection([1, 2])
    env.get_checkpoint_config().enable_unaligned_checkpoints()
    with pytest.raises(UsageError, match=f"{PARTITIONERS} guaranteed to work correctly"):
        stream.partition_custom(lambda key, count: 0, lambda value: value)


def test_k12_force_allows_a_partitioner_of_one_s_own(env: Env) -> None:
    stream = env.from_collection([1, 2])
    config = env.get_checkpoint_config().enable_unaligned_checkpoints().set_force_unaligned_checkpoints()
    assert config.is_force_unaligned_checkpoints() and not settings_without_effect(env._configuration)
    assert stream.partition_custom(lambda key, count: 0, lambda value: value).get_type() == stream.get_type()
