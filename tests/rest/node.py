"""Runs scripts of the page in Node.js."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

_NODE = shutil.which("node")
needs_node = pytest.mark.skipif(_NODE is None, reason="there is no Node.js; the browser's tests see the whole page")


def run_node(folder: Path, script: str, environment: Mapping[str, str] | None = None) -> str:
    """What a script of the folder prints."""
    assert _NODE is not None
    own = {**os.environ, **(environment or {})}
    done = subprocess.run([_NODE, script], cwd=folder, env=own, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
