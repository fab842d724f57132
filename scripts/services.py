"""Starts and stops a real system for tests: `python scripts/services.py kafka [start|stop|address|kill|resume|fetch]`.

`start` prints the address. The service ends with the session of the terminal that started it, or with the process that
`--owner PID` names.
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from penstock.errors import PenstockError, ServiceError  # noqa: E402
from penstock.services import cache_folder, find_running, load_service, service_names, start_service  # noqa: E402

ACTIONS = ("start", "stop", "address", "kill", "resume", "fetch")


def main(arguments: list[str]) -> int:
    """Exit code 0 if the action was done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("service", choices=service_names())
    parser.add_argument("action", choices=ACTIONS, nargs="?", default="start")
    parser.add_argument("--owner", type=int, default=None, help="the service ends with this process")
    parser.add_argument(
        "--folder", type=Path, default=None, help="several services of one name live in several folders"
    )
    options = parser.parse_args(arguments)
    try:
        act(options.service, options.action, options.folder, options.owner)
    except PenstockError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def act(name: str, action: str, folder: Path | None, owner_pid: int | None) -> None:
    """Do one action."""
    if action == "fetch":
        cache_folder().mkdir(parents=True, exist_ok=True)
        load_service(name).fetch(cache_folder())
        return
    if action == "start":
        owner_pid = os.getsid(0) if owner_pid is None else owner_pid
        print(start_service(name, folder, owner_pid).address)
        return
    running = find_running(name, folder)
    if running is None:
        if action == "stop":
            return
        raise ServiceError(f"the service {name!r} does not run; start it with `start`")
    if action == "address":
        print(running.address)
    else:
        getattr(running, action)()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
