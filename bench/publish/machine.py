"""What the results were measured on: the machine, and the versions of the engines."""

import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

import penstock
from bench.engine import Engine

ROOT = Path(__file__).parents[2]
GIB = 1024**3


def describe_machine() -> dict[str, Any]:
    """Cores, memory and the software below all engines."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
        "processor": processor_name(Path("/proc/cpuinfo")),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": java_version(Path(os.environ.get("JAVA_HOME", "")) / "release"),
    }


def processor_name(path: Path) -> str:
    """As the kernel calls it."""
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def java_version(path: Path) -> str:
    """Of the `release` file of a Java."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = (line.partition("=")[2].strip('"') for line in lines if line.startswith("JAVA_VERSION="))
    return next(found, "unknown")


def versions_of(engine: Engine) -> str:
    """The packages that its environment was made of.

    >>> from bench.engine import load_engine
    >>> versions_of(load_engine("bytewax"))
    'bytewax 0.21.1'
    """
    own = [f"penstock {penstock.__version__}"] if engine.venv.project else []
    return ", ".join([*own, *(text.replace("==", " ") for text in pinned(engine.venv.requirements))])


def pinned(requirements: Sequence[str]) -> list[str]:
    """Those with one version."""
    return [text for text in requirements if "==" in text]


def commit() -> str:
    """Of this source tree; "+" behind it means that files are changed."""
    described = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(described, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
