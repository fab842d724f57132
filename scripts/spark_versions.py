"""Runs the smoke tests on every version of PySpark that the package claims to support.

    python scripts/spark_versions.py            # the oldest and the newest patch of every minor release
    python scripts/spark_versions.py 4.1.0      # these versions

Which patches there are is asked of the package index. Every version has its own environment in `.tools/pyspark-VERSION`
with the source tree installed in it. The smoke tests are those with the marker `smoke`. The exit code is 1 if any
version failed.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.venvs import Venv, ensure_venv  # noqa: E402

MINORS = ("4.1", "4.2", "4.3")
"""What `pyproject.toml` claims; a test compares the two."""


def main(arguments: list[str]) -> int:
    """Exit code 0 if the smoke tests pass on every version."""
    versions = arguments or supported(available())
    print(f"PySpark {', '.join(versions)}", flush=True)
    outcomes = [run(version) for version in versions]
    for version, (exit_code, seconds) in zip(versions, outcomes, strict=True):
        print(f"PySpark {version}: {'failed' if exit_code else 'passed'}, {seconds:.0f} s")
    return int(any(exit_code for exit_code, _ in outcomes))


def available() -> str:
    """What the package index says about PySpark."""
    command = [sys.executable, "-m", "pip", "index", "versions", "pyspark"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def supported(listing: str) -> list[str]:
    """The oldest and the newest patch of every supported minor release.

    >>> supported("Available versions: 4.4.0, 4.3.0, 4.2.1, 4.2.0, 4.1.10, 4.1.2, 4.1.0, 4.0.1")
    ['4.1.0', '4.1.10', '4.2.0', '4.2.1', '4.3.0']
    """
    found = []
    for minor in MINORS:
        patches = sorted({int(patch) for patch in re.findall(rf"\b{re.escape(minor)}\.(\d+)\b", listing)})
        if not patches:
            raise SystemExit(f"the package index has no PySpark {minor}")
        found += [f"{minor}.{patch}" for patch in dict.fromkeys((patches[0], patches[-1]))]
    return found


def run(version: str) -> tuple[int, float]:
    """pytest's exit code on one version, and how long it took."""
    os.environ.setdefault("UV_SYSTEM_CERTS", "1")  # otherwise uv does not trust the certificates of the machine
    python = ensure_venv(Venv(f"pyspark-{version}", (f"pyspark=={version}", "penstock[dev]"), ROOT), ROOT / ".tools")
    command = [str(python), "-c", "import pyspark; print(pyspark.__version__)"]
    installed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if installed != version:
        raise SystemExit(f"{python} has PySpark {installed}, not {version}")
    print(f"---- PySpark {version}", flush=True)
    start_s = time.monotonic()
    # PySpark 4.1 leaves sockets to the garbage collector, which is no error of the tests.
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestUnraisableExceptionWarning", "-m", "smoke"]
    command = [str(python), "-m", "pytest", *options, "tests/spark"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode, time.monotonic() - start_s


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
