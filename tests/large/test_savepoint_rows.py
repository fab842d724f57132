"""A savepoint of a million keys in three states: how fast it is written, and who can read it (`make test-large`)."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
KEYS = 1_000_000

pytestmark = [pytest.mark.large, pytest.mark.timeout(1800)]

WITHOUT_PENSTOCK = """
import json, sys
import duckdb
import pyarrow.parquet as pq

folder = sys.argv[1]
found = {}
for state in ("number", "total", "name"):
    table = pq.read_table(f"{folder}/state/three/{state}")
    files = f"{folder}/state/three/{state}/*.parquet"
    rows, keys = duckdb.sql(f"select count(*), count(distinct key) from read_parquet('{files}')").fetchall()[0]
    assert table.num_rows == rows == keys
    assert table.column_names == ["key_group", "key_hash", "key", "value"]
    found[state] = rows
path = f"{folder}/state/three/total/*.parquet"
found["sum"] = duckdb.sql(f"select sum(value) from read_parquet('{path}')").fetchall()[0][0]
assert not [name for name in sys.modules if name.startswith("penstock")]
print(json.dumps(found))
"""


def run(*arguments: str, cwd: Path = ROOT) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=1700, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    print(json.dumps(figures, indent=2))
    return figures


def keep(name: str, figures: dict[str, Any]) -> None:
    """Beside those of other large states, in .bench/large.json."""
    kept = ROOT / ".bench" / "large.json"
    kept.parent.mkdir(exist_ok=True)
    known = json.loads(kept.read_text()) if kept.exists() else {}
    kept.write_text(json.dumps({**known, name: figures}, indent=2) + "\n")


def test_a_savepoint_of_a_million_keys_is_written_fast_and_read_without_penstock(tmp_path: Path) -> None:
    figures = run("-m", "tests.large.savepoint_rows", str(KEYS), str(tmp_path))
    keep("savepoint", figures)
    assert figures["rows"] == 3 * KEYS
    assert figures["rows_per_s_per_core"] >= 300_000
    found = run("-c", WITHOUT_PENSTOCK, figures["path"], cwd=tmp_path)
    assert found == {"number": KEYS, "total": KEYS, "name": KEYS, "sum": 0.5 * sum(range(KEYS))}


def test_a_job_goes_on_while_its_savepoint_of_a_million_keys_is_written(tmp_path: Path) -> None:
    figures = run("-m", "tests.large.savepoint_job", str(KEYS), str(tmp_path))
    keep("savepoint_while_running", figures)
    assert figures["rows_per_s_while_written"] > 0
    found = run("-c", WITHOUT_PENSTOCK, figures["path"], cwd=tmp_path)
    assert found["number"] == found["total"] == found["name"] == KEYS
