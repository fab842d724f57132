"""Configuration becomes settings of checkpoints: from the program, from -D and from YAML, under new names and old."""

from pathlib import Path

import pytest

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.control.effective_settings import load_settings
from penstock.control.settings_file import SettingsSource, read_settings_file
from penstock.errors import ConfigurationError
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.model.configuration import Configuration
from penstock.model.execution import CheckpointingMode, ExternalizedCheckpointRetention
from penstock.model.execution_config import ExecutionConfig

CHK = "execution.checkpointing."


def file_at(path: Path) -> list[SettingsSource]:
    source = read_settings_file(path)
    return [source] if source is not None else []


def settings(**given: str) -> CheckpointSettings:
    """From names such as `max_concurrent_checkpoints`, with an interval if there is none."""
    keys = {CHK + name.replace("__", ".").replace("_", "-"): value for name, value in given.items()}
    configuration = load_settings(Configuration.from_dict({CHK + "interval": "1s", **keys}), {}, []).configuration
    found = JobSettings.of("job", configuration).checkpoints
    assert found is not None
    return found


def test_k1_without_an_interval_there_are_no_checkpoints() -> None:
    assert JobSettings.of("job", Configuration()).checkpoints is None
    assert settings(interval="5s").interval_ms == 5000


@pytest.mark.parametrize("source", ["program", "flag", "yaml"])
def test_k1_an_interval_under_10_ms_is_refused_wherever_it_is_set(source: str, tmp_path: Path) -> None:
    found = given(source, {CHK + "interval": "10 ms"}, tmp_path)
    assert found is not None and found.interval_ms == 10
    with pytest.raises(ConfigurationError, match="Checkpoint interval must be larger than or equal to 10 ms"):
        given(source, {CHK + "interval": "9 ms"}, tmp_path)


def given(source: str, keys: dict[str, str], folder: Path) -> CheckpointSettings | None:
    """Settings that come from the program, from -D or from penstock.yaml."""
    path = folder / "penstock.yaml"
    path.write_text("\n".join(f"{key}: {value}" for key, value in keys.items()) if source == "yaml" else "")
    program = Configuration.from_dict(keys) if source == "program" else Configuration()
    merged = load_settings(program, keys if source == "flag" else {}, file_at(path)).configuration
    return JobSettings.of("job", merged).checkpoints


@pytest.mark.parametrize("source", ["program", "flag", "yaml"])
def test_every_setting_is_read_wherever_it_is_set(source: str, tmp_path: Path) -> None:
    keys = {
        CHK + "interval": "2s",
        CHK + "mode": "AT_LEAST_ONCE",
        CHK + "timeout": "1 min",
        CHK + "min-pause": "3s",
        CHK + "max-concurrent-checkpoints": "4",
        CHK + "num-retained": "5",
        CHK + "tolerable-failed-checkpoints": "6",
        CHK + "externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        CHK + "aligned-checkpoint-timeout": "7s",
        "penstock.checkpoint.retain-finished": "true",
        CHK + "local-backup.enabled": "true",
        CHK + "local-backup.dirs": "/a,/b",
        "execution.state-recovery.from-local": "true",
        "penstock.unaligned.max-spool": "1 mb",
        "penstock.sink.commit-timeout": "8s",
    }
    assert given(source, keys, tmp_path) == CheckpointSettings(
        interval_ms=2000,
        timeout_ms=60_000,
        min_pause_ms=3000,
        max_concurrent=4,
        retained=5,
        tolerable_failures=6,
        commit_timeout_ms=8000,
        mode=CheckpointingMode.AT_LEAST_ONCE,
        aligned_timeout_ms=7000,
        max_spool_bytes=1 << 20,
        retention=ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
        retain_finished=True,
        local_backup=True,
        local_backup_dirs=("/a", "/b"),
        recover_from_local=True,
    )


def test_the_program_wins_over_flags_and_flags_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text(f"{CHK}interval: 1s\n{CHK}timeout: 1s\n{CHK}min-pause: 1s\n")
    program = Configuration.from_dict({CHK + "interval": "3s"})
    merged = load_settings(program, {CHK + "interval": "2s", CHK + "timeout": "2s"}, file_at(path)).configuration
    found = JobSettings.of("job", merged).checkpoints
    assert found is not None and (found.interval_ms, found.timeout_ms, found.min_pause_ms) == (3000, 2000, 1000)


@pytest.mark.parametrize(
    ("old", "value", "field", "expected"),
    [
        ("state.checkpoints.num-retained", "3", "retained", 3),
        ("state.backend.local-recovery", "true", "local_backup", True),
        ("state.backend.local-recovery", "true", "recover_from_local", True),
        ("taskmanager.state.local.root-dirs", "/fast", "local_backup_dirs", ("/fast",)),
        (CHK + "unaligned", "true", "unaligned", True),
        (CHK + "alignment-timeout", "30s", "aligned_timeout_ms", 30_000),
    ],
)
def test_old_names_of_keys_are_read(old: str, value: str, field: str, expected: object) -> None:
    merged = load_settings(Configuration.from_dict({CHK + "interval": "1s", old: value}), {}, []).configuration
    found = JobSettings.of("job", merged).checkpoints
    assert getattr(found, field) == expected


def test_k2_the_mode_is_exactly_once_unless_it_is_set() -> None:
    assert settings().exactly_once
    assert not settings(mode="at-least-once").exactly_once


def test_k3_the_timeout_is_10_minutes_and_at_least_10_ms() -> None:
    assert settings().timeout_ms == 600_000
    assert settings(timeout="10 ms").timeout_ms == 10
    with pytest.raises(ConfigurationError, match="Checkpoint timeout must be larger than or equal to 10 ms"):
        settings(timeout="9 ms")


def test_k5_the_number_of_concurrent_checkpoints_is_read_and_at_least_one() -> None:
    assert settings().max_concurrent == 1
    assert settings(max_concurrent_checkpoints="3").max_concurrent == 3
    with pytest.raises(ConfigurationError, match="The maximum number of concurrent attempts must be at least one"):
        settings(max_concurrent_checkpoints="0")


def test_k6_at_least_one_checkpoint_is_retained() -> None:
    with pytest.raises(ConfigurationError, match="at least one checkpoint"):
        settings(num_retained="0")


def test_k7_tolerable_failures_are_not_negative() -> None:
    with pytest.raises(ConfigurationError, match="The tolerable failure checkpoint number must be non-negative"):
        settings(tolerable_failed_checkpoints="-1")


def test_k8_nobody_has_chosen_a_retention_unless_it_is_set() -> None:
    assert settings().retention is None
    chosen = settings(externalized_checkpoint_retention="NO_EXTERNALIZED_CHECKPOINTS").retention
    assert chosen is ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS


def test_k10_unaligned_checkpoints_are_one_at_a_time() -> None:
    assert not settings().unaligned and settings(unaligned__enabled="true").unaligned
    with pytest.raises(
        ConfigurationError, match="maxConcurrentCheckpoints can't be > 1 if UnalignedCheckpoints enabled"
    ):
        settings(unaligned__enabled="true", max_concurrent_checkpoints="2")


def test_k10_unaligned_checkpoints_need_exactly_once() -> None:
    keys = {CHK + "interval": "1s", CHK + "unaligned.enabled": "true", CHK + "mode": "AT_LEAST_ONCE"}
    found = JobSettings.of("job", Configuration.from_dict(keys))
    assert found.checkpoints is not None and not found.checkpoints.unaligned
    needs = "Unaligned checkpoints can only be used with checkpointing mode EXACTLY_ONCE"
    assert [needs in warning for warning in found.warnings] == [True]


def test_k11_the_aligned_timeout_is_0_unless_it_is_set() -> None:
    assert settings().aligned_timeout_ms == 0
    assert settings(aligned_checkpoint_timeout="30s").aligned_timeout_ms == 30_000


def test_i5_snapshot_compression_is_on_off_or_where_it_pays() -> None:
    for given_text, expected in (({}, None), ({CHK + "snapshot-compression": "true"}, True)):
        assert JobSettings.of("job", Configuration.from_dict(given_text)).backend.compression is expected
    by_call = Configuration()
    ExecutionConfig(by_call).set_use_snapshot_compression(False)
    assert JobSettings.of("job", by_call).backend.compression is False
