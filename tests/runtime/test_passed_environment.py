"""Security S17: TaskManagers get no secrets of the driver's environment but those that their job needs."""

import os
import stat
import subprocess
from pathlib import Path

import msgspec
import pytest

from penstock.runtime.process import passed_environment, taskmanager_start
from penstock.runtime.process.log_lines import open_log
from penstock.runtime.process.passed_environment import (
    granted_secrets,
    is_secret,
    take_environment,
    withheld_hint,
    without_secrets,
)
from penstock.runtime.process.taskmanager_config import TaskManagerConfig
from tests.runtime.test_taskmanager_start import config_without_jobmanager

SECRETS = {
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "key",
    "AZURE_STORAGE_ACCOUNT_KEY": "account",
    "AZURE_STORAGE_SAS_TOKEN": "sas",
    "GOOGLE_APPLICATION_CREDENTIALS": "/file",
    "PENSTOCK_TOKEN": "token",
    "PGPASSWORD": "words",
    "MY_API_KEY": "mine",
    "MYSQL_PWD": "words",
    "DB_PASS": "words",
    "FIELD_ENCRYPTION_KEY": "bytes",
}
OTHERS = {
    "PATH": "/bin",
    "AWS_REGION": "eu",
    "KEYBOARD": "us",
    "PWD": "/",
    "OLDPWD": "/",
    "MODELS": "/m",
    "NO_COLOR": "1",
}


def test_security_s17_names_tell_secrets_from_other_variables() -> None:
    assert all(map(is_secret, SECRETS))
    assert without_secrets({**SECRETS, **OTHERS}) == OTHERS


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        ([b"/tmp/checkpoints", b"file:///x"], set()),
        ([b"s3a://bucket/jobs"], {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}),
        ([b"a plan with \x00gs://bucket\x00 in it"], {"GOOGLE_APPLICATION_CREDENTIALS"}),
        ([b"abfss://c@a.dfs.core.windows.net/"], {"AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"}),
        ([b"lakes3://no-store"], set()),
    ],
)
def test_security_s17_secrets_of_a_store_go_to_jobs_that_use_it(texts: list[bytes], names: set[str]) -> None:
    assert set(granted_secrets({**SECRETS, **OTHERS}, [""], texts)) == names


def test_security_s17_a_setting_names_further_ones() -> None:
    assert granted_secrets(SECRETS, ["PG*", "MY_API_KEY"], []) == {"PGPASSWORD": "words", "MY_API_KEY": "mine"}
    assert "PENSTOCK_TOKEN" not in granted_secrets(SECRETS, ["PG*"], [b"s3://b"])


def test_security_s17_a_started_process_has_none_in_its_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    seen: list[dict[str, str]] = []

    class Started:
        pid, stdin = 1, open(os.devnull, "wb")

        def __init__(self, *_: object, env: dict[str, str], **__: object) -> None:
            seen.append(env)

        def wait(self) -> int:
            return 0

    monkeypatch.setattr(subprocess, "Popen", Started)
    taskmanager_start.start_here(config_without_jobmanager(tmp_path), {"PYTHONHASHSEED": "0"})
    assert not set(SECRETS) & set(seen[0])
    assert seen[0]["PATH"] == os.environ["PATH"]


def test_granted_secrets_travel_in_the_configuration_and_are_not_shown(tmp_path: Path) -> None:
    config = msgspec.structs.replace(config_without_jobmanager(tmp_path), environment={"PGPASSWORD": "words"})
    decoded = msgspec.json.decode(msgspec.json.encode(config), type=TaskManagerConfig)
    assert decoded.environment == {"PGPASSWORD": "words"}


def test_a_function_that_misses_a_secret_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed_environment, "withheld", set())
    take_environment({}, ["MY_API_KEY"])
    with pytest.raises(KeyError) as missing:
        os.environ["MY_API_KEY"]
    assert "-Dpenstock.taskmanager.environment=MY_API_KEY" in withheld_hint(missing.value)
    assert withheld_hint(KeyError("other")) == ""


def test_security_s16_logs_are_their_owners_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with open_log(tmp_path / "logs" / "driver.log") as file:
            file.write(b"line\n")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "logs" / "driver.log").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700
