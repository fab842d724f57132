"""State that is larger than memory, and what a small change of a large state costs (`make test-large`)."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NEEDED_BYTES = 25 * 10**9
KEYS = 5_000_000
VALUE_BYTES = 1000

pytestmark = [pytest.mark.large, pytest.mark.timeout(3600)]


def measure(kind: str, keys: int, value_bytes: int, folder: Path) -> dict[str, Any]:
    """Figures of one kind of backend, also kept in .bench/large.json."""
    free = shutil.disk_usage(folder).free
    if free < NEEDED_BYTES:
        pytest.fail(f"{free / 1e9:.0f} GB are free in {folder}; this test needs {NEEDED_BYTES / 1e9:.0f} GB")
    command = [sys.executable, "-m", "tests.large.sized", kind, str(keys), str(value_bytes), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3500, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    figures: dict[str, Any] = json.loads(done.stdout)
    kept = ROOT / ".bench" / "large.json"
    kept.parent.mkdir(exist_ok=True)
    known = json.loads(kept.read_text()) if kept.exists() else {}
    kept.write_text(json.dumps({**known, kind: figures}, indent=2) + "\n")
    print(json.dumps(figures, indent=2))
    return figures


def test_five_gigabytes_in_rocksdb_under_a_bound_of_memory(tmp_path: Path) -> None:
    figures = measure("rocksdb", KEYS, VALUE_BYTES, tmp_path)
    assert figures["full_bytes"] >= 0.95 * KEYS * VALUE_BYTES
    assert figures["peak_rss_mb"] <= 1.5 * figures["memory_bound_mb"] + 300
    assert figures["checked_after_restore"] >= 1000 and figures["wrong_after_restore"] == 0
    assert figures["changed_new_bytes"] <= 0.03 * figures["full_bytes"]
    assert figures["next_uploaded_bytes"] <= 0.03 * figures["full_bytes"]


def test_a_million_keys_in_the_hashmap_backend(tmp_path: Path) -> None:
    figures = measure("hashmap", 1_000_000, 100, tmp_path)
    assert figures["changed_uploaded_bytes"] <= 0.02 * figures["full_bytes"]
    assert figures["pause_s"] < 0.05 * figures["write_s"]
    assert figures["rows_per_s_while_written"] > 0


def test_a_checkpoint_costs_what_has_changed_not_what_there_is(tmp_path: Path) -> None:
    figures = measure("changes", 1_000_000, 100, tmp_path)
    for kind in ("hashmap", "rocksdb"):
        assert figures[kind]["ratio"] < 1.5, figures[kind]
    assert figures["hashmap"]["largest_bytes"][1] < 0.1 * 1_000_000 * 100  # never the whole state again
