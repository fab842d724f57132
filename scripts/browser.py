"""Gets what the tests of the web page need: a Chromium and axe-core. `python scripts/browser.py` prints where they are.

Chromium is the machine's own, or Debian's package where packages may be installed. axe-core, which finds what keeps
people with a screen reader or a keyboard out, is fetched with npm into `.tools`; it is for tests only. Playwright is
one of the development packages.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AXE = ROOT / ".tools" / "axe-core" / "axe.min.js"
AXE_PACKAGE = "axe-core@4.14.0"
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""Without them Chromium calls other hosts by itself, and refuses to run as root."""


def main() -> int:
    """Exit code 0 if both are there."""
    chromium, axe = find_chromium(), find_axe()
    for name, path in (("chromium", chromium), ("axe-core", axe)):
        print(f"{name}: {path or 'not found, and it could not be installed'}")
    return 0 if chromium and axe else 1


def find_chromium() -> Path | None:
    """The browser; None if there is none and none can be installed."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        command = ["apt-get", "install", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        found = shutil.which(NAMES[0])
    return None if found is None else Path(found)


def find_axe() -> Path | None:
    """The script of axe-core; None if it cannot be fetched."""
    if AXE.exists() or not shutil.which("npm"):
        return AXE if AXE.exists() else None
    AXE.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["npm", "pack", AXE_PACKAGE, "--silent"], cwd=AXE.parent, check=False, stdout=subprocess.PIPE)
    archives = list(AXE.parent.glob("axe-core-*.tgz"))
    if done.returncode != 0 or not archives:
        return None
    with tarfile.open(archives[0]) as archive:
        content = archive.extractfile("package/axe.min.js")
        assert content is not None, "the package has this file"
        AXE.write_bytes(content.read())
    return AXE


if __name__ == "__main__":
    sys.exit(main())
