"""Gets the tool of the fault tests that is not Python's: strace, on Debian and as root.

`python scripts/fault_tools.py` says if it is missing afterwards; the cases that need it are skipped then. Never fails.
"""

import os
import shutil
import subprocess
import sys


def main() -> int:
    """Exit code 0 in any case."""
    if shutil.which("strace") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-q", "strace"], stdout=subprocess.DEVNULL, check=False)
    if shutil.which("strace") is None:
        print("fault tests: strace is not installed; the cases that need it are skipped", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
