"""`penstock info`: where each setting of a program comes from."""

import json
from pathlib import Path

import pytest

from penstock.cli.main import main

PROGRAM = """
from penstock.common import Configuration
from penstock.datastream import EmbeddedRocksDBStateBackend, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment(
    Configuration.from_dict({"execution.checkpointing.timeout": "1 min", "pipeline.name": "mine"})
)
env.enable_checkpointing(5000)
env.set_state_backend(EmbeddedRocksDBStateBackend())
env.from_collection([1, 2]).print()
env.execute()
"""

FILES = """
from penstock.common import WatermarkStrategy
from penstock.datastream.connectors import FileSource
"""
FILES_READ = """
orders = FileSource.of("orders", "parquet", "customer string")
env.from_source(orders, WatermarkStrategy.no_watermarks(), "orders").print()
env.execute()
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_CONF_DIR", str(tmp_path / "conf"))
    (tmp_path / "conf").mkdir()
    (tmp_path / "penstock.yaml").write_text("pipeline.name: file\nrest.port: 8081\n", encoding="utf-8")
    shared = "rest.port: 1\nspark.authenticate.secret: hidden\nstate.savepoints.dir: /savepoints\n"
    (tmp_path / "conf" / "penstock.yaml").write_text(shared, encoding="utf-8")
    (tmp_path / "job.py").write_text(PROGRAM, encoding="utf-8")
    return str(tmp_path / "job.py")


EXPECTED = {
    "execution.checkpointing.interval": ("5 s", "the program"),
    "execution.checkpointing.savepoint-dir": ("/savepoints", "{conf}, line 3"),
    "execution.checkpointing.timeout": ("1 min", "the program"),
    "parallelism.default": ("2", "-p"),
    "penstock.epoch.interval": ("1s", "-D"),
    "pipeline.name": ("mine", "the program"),
    "rest.port": ("8081", "./penstock.yaml, line 2"),
    "spark.authenticate.secret": ("******", "{conf}, line 2"),
    "state.backend.type": ("rocksdb", "the program"),
}
FLAGS = ["-p", "2", "-Dpenstock.epoch.interval=1s", "-Dpipeline.name=flag"]


def test_every_setting_is_listed_with_its_origin(job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json", *FLAGS, job]) == 0
    rows = json.loads(capsys.readouterr().out)["settings"]
    conf = tmp_path / "conf" / "penstock.yaml"
    expected = {key: (value, origin.format(conf=conf)) for key, (value, origin) in EXPECTED.items()}
    assert {row["key"]: (row["value"], row["origin"]) for row in rows} == expected
    assert [row["key"] for row in rows] == sorted(expected)


def test_the_guarantee_is_part_of_the_report(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json", *FLAGS, job]) == 0
    found = json.loads(capsys.readouterr().out)["guarantees"]
    assert (found["guarantee"], found["state"]) == ("at least once", "exactly once")
    assert [part["name"] for part in found["weak_parts"]] == ["Print to Std. Out"]
    assert main(["info", *FLAGS, job]) == 0
    assert "delivery: at least once; state is exactly once\n  sink 'Print to Std. Out': " in capsys.readouterr().out


def test_how_each_source_is_read_is_part_of_the_report(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(job).write_text(FILES + PROGRAM.replace("env.execute()", FILES_READ), encoding="utf-8")
    assert main(["info", "--json", *FLAGS, job]) == 0
    collection, files = json.loads(capsys.readouterr().out)["sources"]
    assert collection["reason"] == "it reads neither files nor topics" and not collection["packed"]
    assert files == {"uid": files["uid"], "name": "orders", "packed": True, "reason": ""}
    assert main(["info", "-Dspark.sql.caseSensitive=true", *FLAGS, job]) == 0
    assert "source 'orders': row by row: spark.sql.caseSensitive is true" in capsys.readouterr().out


def test_people_see_a_table_behind_the_plan(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", *FLAGS, job]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[lines.index("Settings (every other option has its default):") + 1 :]
    assert [line.split()[0] for line in table] == sorted(EXPECTED)
    assert "  pipeline.name                          mine         the program" in table
    assert "hidden" not in "\n".join(lines)


def test_a_program_without_settings_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    plain = PROGRAM[: PROGRAM.index("(\n")] + "()\nenv.from_collection([1]).print()\nenv.execute()\n"
    (tmp_path / "job.py").write_text(plain, encoding="utf-8")
    assert main(["info", "job.py"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "Settings: every option has its default"


def test_a_mistake_in_a_file_is_reported_with_file_and_line(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "penstock.yaml").write_text("rest.port: 8081\nrest.prot: 1\n", encoding="utf-8")
    assert main(["info", job]) == 2
    assert "no configuration key 'rest.prot' (from ./penstock.yaml, line 2); did you mean 'rest.port'?" in (
        capsys.readouterr().err
    )


def test_cli_c2_a_program_that_is_not_python_is_a_mistake_of_its_author_as_for_run(
    job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(job).write_text("total = (\n", encoding="utf-8")
    assert main(["info", job]) == 2
    error = capsys.readouterr().err
    assert f"job file {job!r} cannot be read as Python, line 1" in error and "Traceback" not in error
