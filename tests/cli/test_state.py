"""`penstock state`: on checkpoints of both backends, as text and as JSON."""

import csv
import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.cli.main import main
from penstock.cli.state_commands import cell_text
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.storage.local import LocalStorage
from penstock.testing import CHECKPOINT, Harness
from tests.checkpoint.snapshots import RECORDS, TOTALS, EveryKind, checkpoint, harness, snapshot

TOTAL = ("--operator", "function", "--state", "total")


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return checkpoint(tmp_path_factory.mktemp("typed") / "job", key_type=Types.STRING())


@pytest.fixture(scope="module")
def untyped(tmp_path_factory: pytest.TempPathFactory) -> str:
    return checkpoint(tmp_path_factory.mktemp("untyped") / "job", "rocksdb")


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["state", *arguments]) == 0
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(shown(capsys, *arguments, "--json"))


def test_s5_ls_lists_operators_states_schemas_rows_and_bytes(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "ls", typed)
    assert "checkpoint 4 of job 0000" in text
    lines = {tuple(line.split()[:3]): line for line in text.splitlines()}
    assert "STRING -> DOUBLE" in lines["function", "total", "value"]
    assert " 50 " in lines["function", "total", "value"]
    assert "STRING -> LIST<LONG> ttl" in lines["function", "trail", "list"]
    found = document(capsys, "ls", typed)
    states = {state["state"]: state for state in found["states"]}
    assert states["_timers_event"]["rows"] == len(RECORDS) and states["rules"]["kind"] == "broadcast"
    (operator,) = found["operators"]
    assert operator["parallelism"] == 2 and operator["size_bytes"] >= states["total"]["size_bytes"] > 0


def test_ls_of_rocksdb_counts_rows_unless_told_not_to(untyped: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {state["state"]: state["rows"] for state in document(capsys, "ls", untyped)["states"]}
    assert rows["total"] == 50 and rows["_timers_event"] == len(RECORDS)
    quick = {state["state"]: state["rows"] for state in document(capsys, "ls", untyped, "--no-rows")["states"]}
    assert quick["total"] is None and quick["handled"] == 2


def test_show_prints_a_key_and_python_like_values(untyped: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--operator", "function", "--state", "untyped")
    text = shown(capsys, "show", untyped, *flags, "--key", "k7")
    assert "'k7'  {'last': ('k7', 157)}" in text and len(text.splitlines()) == 2
    (row,) = document(capsys, "show", untyped, *flags, "--key", '"k7"')["rows"]
    assert row["key"] == "k7" and row["value"] == {"last": {"$tuple": ["k7", 157]}}
    assert document(capsys, "show", untyped, *flags, "--key", "k70") == {"rows": [], "more": False}


def test_show_stops_at_the_limit_and_says_so(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "show", typed, *TOTAL, "--limit", "2")
    assert len(text.splitlines()) == 4 and "the first 2 rows" in text
    found = document(capsys, "show", typed, *TOTAL, "--limit", "1000")
    assert {row["key"]: row["value"] for row in found["rows"]} == TOTALS and not found["more"]


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (("show", "PATH", "--operator", "functoin", "--state", "total"), 2, "did you mean 'function'"),
        (("show", "PATH", "--operator", "function", "--state", "totl"), 2, "did you mean 'total'"),
        (("show", "PATH", "--operator", "function", "--state", "rules", "--key", "k"), 2, "has no keys"),
        (("show", "PATH", *TOTAL, "--kind", "odd"), 2, "--kind 'odd' is not one of"),
        (("export", "PATH", *TOTAL, "--to", "x.xls"), 2, ".parquet, .csv or .json"),
        (("sql", "PATH", "select * from nothing"), 2, '"function"."total"'),
        (("ls", "nowhere"), 3, "Cannot find checkpoint or savepoint"),
        (("ls", "EMPTY"), 3, "The folder is empty."),
    ],
)
def test_error_messages_say_what_to_do(
    typed: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    hint: str,
) -> None:
    paths = {"PATH": typed, "EMPTY": str(tmp_path)}
    assert main(["state", *(paths.get(part, part) for part in arguments)]) == code
    assert hint in capsys.readouterr().err


def test_s4_sql_has_a_table_per_state(typed: str, untyped: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = "select sum(value) as total, count(*) as keys from function.total"
    assert document(capsys, "sql", typed, query) == [{"total": sum(TOTALS.values()), "keys": 50}]
    joined = 'select count(*) as n from "function"."total" t join "function"."seen" s on t.key = s.key'
    assert document(capsys, "sql", typed, joined) == [{"n": 50}]
    who = """select value->>'$.last."$tuple"[0]' as who from function.untyped where key = '"k7"'"""
    assert document(capsys, "sql", untyped, who) == [{"who": "k7"}]
    assert shown(capsys, "sql", typed, query).splitlines()[0].split() == ["total", "keys"]


def test_s4_sql_reads_the_files_of_a_canonical_savepoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = snapshot(tmp_path / "it's", "canonical", key_type=Types.STRING())
    query = "select sum(value) as total, count(*) as keys from function.total"
    assert document(capsys, "sql", path, query) == [{"total": sum(TOTALS.values()), "keys": 50}]
    expired = "select count(*) as n from function.recent where expires_at > timestamptz '2023-11-14 23:13:19+00'"
    assert document(capsys, "sql", path, expired) == [{"n": 50}]
    other = tmp_path / "other.parquet"
    other.write_bytes(next(Path(path).rglob("*.parquet")).read_bytes())
    assert main(["state", "sql", path, f"select * from '{other}'"]) == 2
    rows = {state["state"]: state["rows"] for state in document(capsys, "ls", path, "--no-rows")["states"]}
    assert rows["total"] == 50 and rows["_timers_event"] == len(RECORDS)


@pytest.mark.parametrize("form", ["canonical", "native"])
def test_s3_diff_finds_nothing_between_a_checkpoint_and_a_savepoint_of_the_same_state(
    typed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    path = snapshot(tmp_path / "job", form, "rocksdb", Types.STRING())
    assert shown(capsys, "diff", typed, path) == "no differences\n"


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_text('/etc/hostname')",
        "copy (select 1) to 'out.csv'",
        "attach 'other.db'",
        "install httpfs",
        "set enable_external_access = true",
    ],
)
def test_sql_reaches_nothing_but_the_snapshot(
    typed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["state", "sql", typed, query]) == 2
    assert "the query cannot run" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_sql_without_duckdb_names_the_extra(
    typed: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert main(["state", "sql", typed, "select 1"]) == 2
    assert "penstock[sql]" in capsys.readouterr().err


def test_export_writes_each_format_and_never_over_a_file(
    typed: str, untyped: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = {form: tmp_path / f"total.{form}" for form in ("parquet", "csv", "json")}
    for target in to.values():
        assert document(capsys, "export", typed, *TOTAL, "--to", str(target))["rows"] == 50
    table = pq.read_table(to["parquet"])
    assert dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) == TOTALS
    lines = [json.loads(line) for line in to["json"].read_text().splitlines()]
    assert {line["key"]: line["value"] for line in lines} == TOTALS
    with to["csv"].open(newline="") as file:
        assert {row["key"]: float(row["value"]) for row in csv.DictReader(file)} == TOTALS
    assert main(["state", "export", typed, *TOTAL, "--to", str(to["csv"])]) == 2
    flags = ("--operator", "function", "--state", "untyped")
    one = tmp_path / "one.json"
    assert document(capsys, "export", untyped, *flags, "--key", "k7", "--to", str(one))["rows"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.json", "total.csv", "total.json", "total.parquet"]


def test_diff_of_a_snapshot_with_itself_and_with_a_later_one(
    tmp_path: Path, typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(capsys, "diff", typed, typed) == "no differences\n"
    later = harness(tmp_path / "job", key_type=Types.STRING())
    later.feed([("k7", 1000), ("new", 5), ("k8", -1), CHECKPOINT])
    assert later.manifest is not None
    found = document(capsys, "diff", typed, str(tmp_path / "job" / f"chk-{later.manifest.checkpoint_id}"))
    states = {state["state"]: state for state in found["states"]}
    counts = [states["total"][name] for name in ("rows_added", "rows_removed", "rows_changed")]
    assert counts == [1, 1, 1]
    assert {"key": "k7", "value": TOTALS["k7"] + 1000} in [e["after"] for e in states["total"]["examples"]]
    assert states["_timers_event"]["rows_added"] == 3 and "rules" not in states


def test_diff_names_changed_types_and_does_not_compare_other_keys(
    typed: str, untyped: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, "diff", typed, untyped)
    assert "state schema      function total" in text and "+ value key TAGGED, value DOUBLE" in text
    assert "    refused: " in text


class Total(KeyedProcessFunction):
    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", self.kind))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update(value)
        return []


def test_diff_says_what_a_restore_does_with_a_changed_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for name, kind in (("int", Types.INT()), ("long", Types.LONG())):
        made = Harness.keyed(Total(kind), key=lambda record: record, storage=LocalStorage(tmp_path / name))
        paths.append(made.feed([1, 2]).savepoint(tmp_path))
    (state,) = document(capsys, "diff", *paths)["states"]
    assert (state["change"], state["rows_changed"]) == ("changed", 0)
    assert state["schema_change"].startswith("evolves: ") and "LONG" in state["schema_after"]
    assert document(capsys, "diff", *reversed(paths))["states"][0]["schema_change"].startswith("refused: ")


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Harness.keyed(
        EveryKind(), key=lambda record: record[0], key_type=Types.STRING(), storage=LocalStorage(tmp_path)
    )
    made.feed([("a\x1b[2J\n\u202e", 1), CHECKPOINT])
    assert made.manifest is not None
    text = shown(capsys, "show", str(tmp_path / f"chk-{made.manifest.checkpoint_id}"), *TOTAL)
    assert "a\\x1b[2J\\n\\u202e" in text and "\x1b" not in text
    assert cell_text("x" * 300).endswith("… (300 characters)")


@pytest.mark.parametrize(
    "query",
    [
        "copy (select 1 as a) to 'FILE' (format parquet, use_tmp_file false)",
        "explain analyze copy (select 1 as a) to 'FILE' (format parquet, use_tmp_file false)",
        "select 1; copy (select 1 as a) to 'FILE' (format parquet, use_tmp_file false)",
        "create table t as select 1",
        "",
        ";",
        "select 1 \\udce4",
        "select case when i = 90000 then error('late') else i end from range(100000) t(i)",
    ],
)
def test_s4_sql_only_reads_and_reports_errors_in_the_query(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], query: str
) -> None:
    path = snapshot(tmp_path / "job", "canonical", key_type=Types.STRING())
    file = next(Path(path).rglob("total/*.parquet"))
    before = file.read_bytes()
    assert main(["state", "sql", path, query.replace("FILE", str(file))]) == 2
    assert "the query cannot run" in capsys.readouterr().err
    assert file.read_bytes() == before


class LikeNames(KeyedProcessFunction):
    """States whose names SQL could mix up."""

    names = ("Total", "total", 'we"ird', "total_1")

    def open(self, runtime_context: Any) -> None:
        self.states = [runtime_context.get_state(ValueStateDescriptor(name, Types.LONG())) for name in self.names]
        self.untyped = runtime_context.get_state(ValueStateDescriptor('x"y'))

    def process_element(self, value: Any, ctx: Any) -> Any:
        for number, state in enumerate(self.states):
            state.update(number)
        self.untyped.update("z")
        yield value


def test_s4_sql_never_takes_one_state_for_another_or_for_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Harness.keyed(LikeNames(), key=lambda record: record, storage=LocalStorage(tmp_path), max_parallelism=16)
    made.feed(["a", CHECKPOINT])
    assert made.manifest is not None
    path = str(tmp_path / f"chk-{made.manifest.checkpoint_id}")
    assert main(["state", "sql", path, "select value from function.total"]) == 2
    assert '"function"."Total_2", "function"."total_3"' in capsys.readouterr().err
    expected = {'"Total_2"': 0, '"total_3"': 1, '"we""ird"': 2, "total_1": 3, '"x""y"': '"z"'}
    for name, value in expected.items():
        assert document(capsys, "sql", path, f"select value from function.{name}") == [{"value": value}]
    assert main(["state", "sql", path, "select * from query_table('function.total' || '_1')"]) == 2
    assert "write the name of the table" in capsys.readouterr().err


def test_opening_a_snapshot_creates_no_folder_and_reads_no_huge_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["state", "ls", str(tmp_path / "typo" / "chk-1")]) == 3
    assert not list(tmp_path.iterdir())
    with (tmp_path / "_metadata").open("wb") as file:
        file.truncate(1 << 40)
    assert main(["state", "ls", str(tmp_path)]) == 5
    assert "LIMIT_EXCEEDED" in capsys.readouterr().err
    (tmp_path / "_metadata").unlink()
    os.mkfifo(tmp_path / "_metadata")
    assert main(["state", "ls", str(tmp_path)]) == 3
