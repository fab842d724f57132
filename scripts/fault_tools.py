"""Gets the tools of the fault tests that are not Python's: strace and libfaketime, on Debian and as root.

`python scripts/fault_tools.py` says what is missing afterwards; the cases that need it are skipped then. Never fails.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

FAKETIME_FOLDERS = ("/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime", "/usr/lib/faketime")


def main() -> int:
    """Exit code 0 in any case."""
    wanted = missing()
    if wanted and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-q", *wanted], stdout=subprocess.DEVNULL, check=False)
    for name in missing():
        print(f"fault tests: {name} is not installed; the cases that need it are skipped", file=sys.stderr)
    return 0


def missing() -> list[str]:
    """The Debian packages that are not there."""
    has_faketime = any((Path(folder) / "libfaketimeMT.so.1").exists() for folder in FAKETIME_FOLDERS)
    return ["strace"] * (shutil.which("strace") is None) + ["libfaketime"] * (not has_faketime)


if __name__ == "__main__":
    sys.exit(main())
