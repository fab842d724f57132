"""Makes `.venv` with everything that the make targets need. Needs only a Python 3.10 or newer with `venv`.

Uses uv where it can be installed, which is faster, and pip otherwise. `python3 scripts/setup.py` may be run again at
any time; an existing environment is brought up to date. `python3 scripts/setup.py docs` adds what builds the
documentation; other extras of pyproject.toml work the same way.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"


def main(extras: list[str]) -> int:
    """Exit code 0 when the environment is complete."""
    if sys.version_info < (3, 10):  # noqa: UP036 - this runs on whatever Python the machine has
        print_line(f"Python 3.10 or newer is needed, this is {sys.version.split()[0]}; use make PYTHON=python3.11")
        return 2
    if not PYTHON.exists():
        print_line("making .venv")
        try:
            venv.create(ENVIRONMENT, with_pip=True)
        except (ImportError, subprocess.CalledProcessError) as error:
            print_line(f"this Python cannot make environments with pip ({error}); on Debian install python3-venv")
            return 1
    print_line("installing penstock and its tools into .venv")
    wanted = f"{ROOT}[{','.join(['dev', *extras])}]"
    if install_with_uv(wanted) or install_with_pip(wanted):
        for mark in ("ready", *(f"{extra}-ready" for extra in extras)):
            (ENVIRONMENT / mark).touch()
        return 0
    print_line("the packages could not be installed; is a package index reachable?")
    return 1


def install_with_uv(wanted: str) -> bool:
    """True if uv is there, or could be installed, and has installed everything."""
    if not succeeds("pip", "install", "-q", "uv"):
        return False
    return succeeds("uv", "pip", "install", "-q", "--python", str(PYTHON), "-e", wanted)


def install_with_pip(wanted: str) -> bool:
    """True if pip has installed everything."""
    print_line("uv did not do it: using pip")
    return succeeds("pip", "install", "-q", "-e", wanted)


def succeeds(*module_and_arguments: str) -> bool:
    """Whether `python -m …` in the environment ends with 0."""
    # uv trusts the certificates of the machine only when told to; pip does so by itself.
    environment = {**os.environ, "UV_SYSTEM_CERTS": "1"}
    return subprocess.run([str(PYTHON), "-m", *module_and_arguments], env=environment, check=False).returncode == 0


def print_line(text: str) -> None:
    """Print a line on stderr."""
    print(f"setup: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
