"""Writes the golden snapshots of this version below tests/golden: savepoints and a retained checkpoint of each backend.

    python scripts/golden.py

Once a version is released its folder never changes: a folder that is there is refused; remove it by hand while the
version is still in the making. `tests/golden/test_golden.py` restores every one of them with the code of today.
"""

import json
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from penstock import __version__  # noqa: E402
from penstock.storage.local import LocalStorage  # noqa: E402
from penstock.testing import CHECKPOINT  # noqa: E402
from penstock.testing.harness_options import JOB_ID  # noqa: E402
from tests.golden import job  # noqa: E402

MAX_BYTES = 1_000_000


def main() -> int:
    folder = ROOT / "tests" / "golden" / __version__
    if folder.exists():
        print(f"{folder} is there; a released snapshot never changes", file=sys.stderr)
        return 1
    for backend in job.BACKENDS:
        _write(folder, backend)
    return 0


def _write(folder: Path, backend: str) -> None:
    harness = job.harness(parallelism=2, backend=backend)
    job.fill(harness)
    expected = job.content(harness)
    for kind in ("canonical", "native"):
        place = folder / f"{backend}-{kind}"
        place.mkdir(parents=True)
        harness.savepoint(place, format=kind)
    expected["timers"] = job.fire(harness)
    # A job of its own: the log of one that was saved says where its savepoints are.
    checkpoints = folder / f"{backend}-checkpoint"
    harness = job.harness(parallelism=2, backend=backend, storage=LocalStorage(checkpoints / JOB_ID))
    job.fill(harness)
    harness.feed([CHECKPOINT])
    manifest = harness.manifest
    assert manifest is not None
    for place in (checkpoints, *(folder / f"{backend}-{kind}" for kind in ("canonical", "native"))):
        text = json.dumps(expected, indent=1, ensure_ascii=False, sort_keys=True)
        (place / "expected.json").write_text(text + "\n", encoding="utf-8")
        size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        print(f"{place.relative_to(ROOT)}: {size:,} bytes")
        if size > MAX_BYTES:
            shutil.rmtree(folder)
            raise SystemExit(f"{place.name} has {size:,} bytes, more than {MAX_BYTES:,}: nothing was kept")


if __name__ == "__main__":
    sys.exit(main())
