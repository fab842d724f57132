"""`penstock restore --check`: compares a program with a snapshot, and starts nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import main
from penstock.cli.program import load_program
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.storage.local import LocalStorage
from penstock.testing import CHECKPOINT, Harness
from penstock.testing.harness_options import HarnessOptions

PROGRAM = """
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor


class Count(KeyedProcessFunction):
    def open(self, ctx):
        self.count = ctx.get_state(ValueStateDescriptor("count", {count}))
        {more}

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value


class Fresh(Count):
    pass


print("a program may say what it likes")
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism({parallelism}).set_max_parallelism({groups})
rows = env.from_collection(["a", "b"], Types.STRING()).uid("{source}")
{pipeline}
try:
    env.execute("counts")
except Exception:
    raise SystemExit("nobody may keep a program from being looked at")
"""
KEYED = 'rows.key_by(lambda r: r, Types.STRING()).process({name}(), Types.STRING()).uid("{uid}").print()'
DEFAULTS = {"count": "Types.INT()", "more": "", "parallelism": 2, "groups": 8, "source": "rows"}


def write(folder: Path, name: str = "job.py", **changes: Any) -> Path:
    pipeline = changes.pop("pipeline", KEYED.format(name="Count", uid="count"))
    file = folder / name
    file.write_text(PROGRAM.format(**{**DEFAULTS, **changes, "pipeline": pipeline}), encoding="utf-8")
    return file


@pytest.fixture
def savepoint(tmp_path: Path) -> str:
    graph = load_program(write(tmp_path, "first.py"), []).graph
    harness = Harness(graph, HarnessOptions(storage=LocalStorage(tmp_path / "job")))
    harness.feed(["a", "a", "b", CHECKPOINT])
    return harness.savepoint(tmp_path / "savepoints")


def check(job: Path, path: str, *flags: str) -> list[str]:
    return ["restore", "--check", *flags, str(job), path]


def report(job: Path, path: str, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = main(check(job, path, "--json", *flags))
    return code, json.loads(capsys.readouterr().out)


def test_the_same_program_would_start(tmp_path: Path, savepoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = report(write(tmp_path), savepoint, capsys)
    assert code == 0 and found["possible"] and found["needed"] == [] and found["kind"] == "canonical savepoint"
    (operator,) = found["operators"]
    assert (operator["uid"], operator["outcome"], operator["parallelism"]) == ("count", "restored", [2, 2])
    assert [(s["name"], s["kind"], s["outcome"]) for s in operator["states"]] == [("count", "value", "same")]
    assert found["sources"] == [{"uid": "rows", "outcome": "new"}]  # a source of the harness has no position
    assert main(check(write(tmp_path), savepoint)) == 0
    text = capsys.readouterr().out
    assert "restored  count" in text and text.rstrip().endswith("it would start")


def test_a_missing_snapshot_is_known_before_the_program_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.py"
    job.write_text("raise AssertionError('it ran')", encoding="utf-8")
    assert main(check(job, str(tmp_path / "absent"))) == 3
    assert "Cannot find checkpoint or savepoint" in capsys.readouterr().err
    assert main(check(tmp_path / "no.py", str(tmp_path / "absent"))) == 3
    assert "no job file" in capsys.readouterr().err


def test_functions_are_opened_with_the_parameters_of_the_job(
    tmp_path: Path, savepoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write(tmp_path, more='ctx.get_state(ValueStateDescriptor(ctx.get_job_parameter("name", ""), Types.INT()))')
    code, found = report(job, savepoint, capsys, "-D", "pipeline.global-job-parameters.name=limit")
    assert code == 0
    assert [state["name"] for state in found["operators"][0]["states"]] == ["count", "limit"]


def test_o4_o5_a_missing_operator_needs_the_flag(
    tmp_path: Path, savepoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write(tmp_path, pipeline=KEYED.format(name="Fresh", uid="fresh"))
    code, found = report(job, savepoint, capsys)
    assert code == 5 and not found["possible"]
    assert [(o["uid"], o["outcome"]) for o in found["operators"]] == [("fresh", "new"), ("count", "dropped")]
    assert "--allowNonRestoredState" in found["needed"][0]
    assert report(job, savepoint, capsys, "-n")[0] == 0


def test_an_operator_of_the_snapshot_is_not_new_because_it_has_no_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = 'rows.map(lambda r: r, Types.STRING()).uid("plain")' + KEYED.format(name="Count", uid="count")[4:]
    job = write(tmp_path, pipeline=steps)
    harness = Harness(load_program(job, []).graph, HarnessOptions(storage=LocalStorage(tmp_path / "job")))
    harness.feed([CHECKPOINT])  # no record, so no state either
    _, found = report(job, harness.savepoint(tmp_path / "savepoints"), capsys)
    assert [(o["uid"], o["outcome"]) for o in found["operators"]] == [("plain", "restored"), ("count", "restored")]


LATE = KEYED.format(name="Late", uid="count")
LATE_CLASS = """pass


class Late(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value
"""


def test_a_state_that_open_does_not_ask_for_waits_and_is_kept(
    tmp_path: Path, savepoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write(tmp_path, pipeline=LATE)
    job.write_text(job.read_text(encoding="utf-8").replace("pass\n", LATE_CLASS, 1), encoding="utf-8")
    code, found = report(job, savepoint, capsys)
    assert code == 0
    (state,) = found["operators"][0]["states"]
    assert (state["name"], state["outcome"]) == ("count", "waits")
    assert main(check(job, savepoint)) == 0
    line = "waits     count (value): open() does not ask for it; it is kept, and restored when the function asks for it"
    assert line in capsys.readouterr().out
    options = HarnessOptions(storage=LocalStorage(tmp_path / "second"), start=StartOptions(path=savepoint))
    later = Harness(load_program(job, []).graph, options)
    later.feed(["a", CHECKPOINT])
    _, found = report(write(tmp_path), later.savepoint(tmp_path / "later"), capsys)
    assert [(s["name"], s["outcome"]) for s in found["operators"][0]["states"]] == [("count", "same")]


def test_o2_the_report_suggests_a_uid_for_an_operator_without_one(
    tmp_path: Path, savepoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write(tmp_path, pipeline=KEYED.format(name="Count", uid="count").replace('.uid("count")', ""))
    _, found = report(job, savepoint, capsys)
    assert found["needed"][1].endswith("add .uid('count')")


def test_o10_o11_changes_are_shown(tmp_path: Path, savepoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = 'self.all = ctx.get_list_state(ListStateDescriptor("all", Types.STRING()))'
    job = write(tmp_path, count="Types.LONG()", more=more, parallelism=5, groups=16)
    code, found = report(job, savepoint, capsys)
    (operator,) = found["operators"]
    assert code == 0 and operator["parallelism"] == [2, 5]
    assert [(s["name"], s["outcome"]) for s in operator["states"]] == [("count", "evolves"), ("all", "new")]
    assert operator["states"][0]["changes"]
    assert found["changes"][0].startswith("max parallelism: 8 -> 16")


def test_o12_a_state_that_does_not_fit_is_named(
    tmp_path: Path, savepoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = report(write(tmp_path, count="Types.STRING()"), savepoint, capsys)
    assert code == 5
    assert "state 'count' of operator 'count'" in found["needed"][0] and "migrate" in found["needed"][0]


def test_a_backend_change_is_shown_where_the_snapshot_says_what_it_was(
    tmp_path: Path, savepoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = next((tmp_path / "job").glob("chk-*"))
    _, found = report(write(tmp_path), str(checkpoint), capsys, "-Dstate.backend.type=rocksdb")
    assert found["kind"] == "checkpoint" and found["changes"] == ["state backend: hashmap -> rocksdb"]


def test_verify_checks_every_file_against_its_hash(
    tmp_path: Path, savepoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write(tmp_path)
    assert report(job, savepoint, capsys, "--verify")[1]["verified"] > 0
    victim = next(file for file in Path(savepoint).rglob("*.parquet"))
    data = bytearray(victim.read_bytes())
    data[-20] ^= 1
    victim.write_bytes(data)
    code, found = report(job, savepoint, capsys)
    assert code == 0 and found["verified"] is None
    code, found = report(job, savepoint, capsys, "--verify")
    assert code == 5 and victim.name in found["errors"][0] and "CORRUPT_FILE" in found["errors"][0]


def test_o8_nothing_at_the_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(check(write(tmp_path), str(tmp_path / "none"))) == 3
    assert "Cannot find checkpoint or savepoint file/directory" in capsys.readouterr().err


def test_wrong_uses_are_usage_errors(tmp_path: Path, savepoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["restore", str(write(tmp_path)), savepoint]) == 2
    assert main(check(tmp_path / "none.py", savepoint)) == 3
    idle = tmp_path / "idle.py"
    idle.write_text("print('nothing to do')", encoding="utf-8")
    assert main(check(idle, savepoint)) == 2
    assert "executes no job" in capsys.readouterr().err
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0", encoding="utf-8")
    assert main(check(broken, savepoint)) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_nothing_is_started_or_written(tmp_path: Path, savepoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    job = write(tmp_path)
    before = sorted(path for path in tmp_path.rglob("*"))
    report(job, savepoint, capsys)
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_info_shows_the_plan_and_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = str(write(tmp_path))
    assert main(["info", job]) == 0
    first, *plan = capsys.readouterr().out.splitlines()
    end = next(number for number, line in enumerate(plan) if set(line) == {"-"})
    assert "Execution Plan" in first
    assert [node.get("uid") for node in json.loads("\n".join(plan[:end]))["nodes"]][:1] == ["rows"]
    assert main(["info", "--json", "-p", "3", job]) == 0
    assert "count" in {node.get("uid") for node in json.loads(capsys.readouterr().out)["nodes"]}
    assert main(["info", str(tmp_path / "absent.py")]) == 3
