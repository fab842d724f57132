"""A JVM for tests. It lives for seconds or minutes: what its second compiler makes of the code comes too late."""

import os
from pathlib import Path

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xlog:disable"
ARCHIVE = Path(__file__).resolve().parent.parent / ".tools" / "spark-classes.jsa"
"""Of scripts/class_archive.py. A JVM that it does not fit does without it."""
VARIABLE = "SPARK_SUBMIT_OPTS"


def use_quick_jvm() -> None:
    """Every JVM that this process, or one below it, starts from now on is a quick one."""
    has_archive = ARCHIVE.exists() and ARCHIVE.stat().st_size
    os.environ[VARIABLE] = f"{OPTIONS} -XX:SharedArchiveFile={ARCHIVE}" if has_archive else OPTIONS
