"""Calls that PyFlink 1 had: they say the same as settings."""

from pathlib import Path
from typing import Any

import pytest

from penstock.common import Configuration, RestartStrategies, Time
from penstock.control.submission import Submission, submitted
from penstock.datastream import (
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
)
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.program_settings import job_settings
from penstock.errors import UsageError
from penstock.jobmanager.restart_strategy import ExponentialDelay, FailureRate, FixedDelay, NoRestart
from penstock.jobmanager.settings.job_settings import JobSettings


@pytest.fixture
def env(spark: Any) -> Env:
    return Env.get_execution_environment()


def settings_of(env: Env) -> JobSettings:
    return JobSettings.of("job", job_settings(env._configuration, env._choices).configuration)


def test_p1_no_restart(env: Env) -> None:
    env.enable_checkpointing(1000)
    env.set_restart_strategy(RestartStrategies.no_restart())
    assert settings_of(env).restart == NoRestart()


def test_p2_fixed_delay_restart(env: Env) -> None:
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 5000))
    assert settings_of(env).restart == FixedDelay(3, 5000)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(2, Time.seconds(1)))
    assert settings_of(env).restart == FixedDelay(2, 1000)


def test_p3_failure_rate_restart(env: Env) -> None:
    env.set_restart_strategy(RestartStrategies.failure_rate_restart(3, 60_000, 500))
    assert settings_of(env).restart == FailureRate(3, 60_000, 500)


def test_p4_exponential_delay_restart(env: Env) -> None:
    env.set_restart_strategy(RestartStrategies.exponential_delay_restart(1, 1000, 2, 10_000, 0))
    assert settings_of(env).restart == ExponentialDelay(1, 1000, 2.0, 10_000, 0.0)


def test_p5_fall_back_restart_is_what_was_configured_outside_the_program(env: Env, tmp_path: Path) -> None:
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 5000))
    env.set_restart_strategy(RestartStrategies.fall_back_restart())
    assert settings_of(env).restart == NoRestart()
    with submitted(Submission(tmp_path / "job.py", overrides={"restart-strategy.type": "failure-rate"})):
        assert settings_of(env).restart == FailureRate()


def test_the_last_strategy_holds_alone(env: Env) -> None:
    env.configure(Configuration.from_dict({"restart-strategy.fixed-delay.delay": "9s"}))
    env.set_restart_strategy(RestartStrategies.failure_rate_restart(3, 60_000, 500))
    assert not env._configuration.contains_key("restart-strategy.fixed-delay.delay")


def test_strategies_are_checked(env: Env) -> None:
    with pytest.raises(TypeError, match="RestartStrategies"):
        env.set_restart_strategy("none")  # type: ignore[arg-type]
    for attempts, delay in ((-1, 0), (True, 0), (1, -1), (1, "1s")):
        with pytest.raises(UsageError):
            RestartStrategies.fixed_delay_restart(attempts, delay)


def test_k8_externalized_checkpoints_under_their_old_names(env: Env) -> None:
    config = env.enable_checkpointing(1000).get_checkpoint_config()
    config.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
    assert config.get_externalized_checkpoint_cleanup() is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    found = settings_of(env).checkpoints
    assert found is not None and found.retention is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    config.set_externalized_checkpoint_cleanup(ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION)
    assert config.get_externalized_checkpoint_retention() is ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION


def test_k14_the_checkpoint_folder_under_its_old_names(env: Env, tmp_path: Path) -> None:
    env.get_checkpoint_config().set_checkpoint_storage_dir(str(tmp_path / "a"))
    assert settings_of(env).storage.address == str(tmp_path / "a")
    env.get_checkpoint_config().set_checkpoint_storage(FileSystemCheckpointStorage(str(tmp_path / "b")))
    assert settings_of(env).storage.address == str(tmp_path / "b")


@pytest.mark.parametrize(
    "key", ["execution.checkpointing.dir", "state.checkpoints.dir", "state.backend.fs.checkpointdir"]
)
def test_k14_the_checkpoint_folder_under_new_and_old_keys(env: Env, tmp_path: Path, key: str) -> None:
    with submitted(Submission(tmp_path / "job.py", overrides={key: str(tmp_path / "c")})):
        assert settings_of(env).storage.address == str(tmp_path / "c")


@pytest.mark.parametrize("key", ["execution.checkpointing.savepoint-dir", "state.savepoints.dir"])
def test_k14_the_savepoint_folder_under_new_and_old_keys(env: Env, tmp_path: Path, key: str) -> None:
    with submitted(Submission(tmp_path / "job.py", overrides={key: str(tmp_path / "s")})):
        assert env.get_default_savepoint_directory() == str(tmp_path / "s")
