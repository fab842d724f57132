"""Named places where a test can kill or disturb the process: the crash points C1 to C31 of the protocol.

`PENSTOCK_FAILPOINT=C8.before:kill:role=tm:hit=3` arms one; several are separated by commas. Every hit is appended to
the file named by `PENSTOCK_FAILPOINT_LOG`. That line proves that the fault happened, and prevents it from happening
again: a point fires once per log file, even if a restarted process passes it again. When nothing is armed, `before` and
`after` cost one test of an empty dictionary.
"""

import fcntl
import os
import signal
import threading
import time
from dataclasses import dataclass, field

NAMES = tuple(f"C{n}" for n in range(1, 32))
ROLES = ("driver", "tm", "task")
HANG_S = 3600.0


class InjectedCrash(BaseException):
    """Raised by the action `raise`. A BaseException, so that no `except Exception` swallows it."""


@dataclass
class Failpoint:
    """One armed point: `action` happens the `hit`-th time that a process of the given role passes it."""

    place: str
    action: str
    role: str | None = None
    hit: int = 1
    seen: int = field(default=0, compare=False)

    def __str__(self) -> str:
        role = f":role={self.role}" if self.role is not None else ""
        return f"{self.place}:{self.action}{role}:hit={self.hit}"


_armed: dict[str, list[Failpoint]] = {}
_role = "driver"


def parse(text: str) -> list[Failpoint]:
    """The failpoints of an environment variable.

    >>> parse("C8.before:kill:role=tm:hit=3")
    [Failpoint(place='C8.before', action='kill', role='tm', hit=3, seen=0)]
    """
    points = []
    for item in filter(None, text.split(",")):
        place, action, *options = item.strip().split(":")
        name, _, side = place.partition(".")
        if name not in NAMES or side not in ("before", "after"):
            raise ValueError(f"no failpoint {place!r}; names are C1.before … C31.after")
        kind = action.partition("=")[0]
        if kind not in ("kill", "raise", "hang", "delay", "stop"):
            raise ValueError(f"no failpoint action {action!r}; use kill, raise, hang, stop or delay=MS")
        values = dict(option.split("=", 1) for option in options)
        role = values.get("role")
        if role is not None and role not in ROLES:
            raise ValueError(f"no role {role!r}; use driver, tm or task")
        points.append(Failpoint(place, action, role, int(values.get("hit", "1"))))
    return points


def arm(*points: Failpoint) -> None:
    """Arm points in this process, in addition to those of the environment."""
    for point in points:
        _armed.setdefault(point.place, []).append(point)


def disarm() -> None:
    """Forget every armed point."""
    _armed.clear()


def set_role(role: str) -> None:
    """Set the role of this process; points for other roles do not fire here."""
    global _role
    _role = role


def before(name: str) -> None:
    """Pass the point `name` just before its step."""
    if _armed:
        _reach(f"{name}.before")


def after(name: str) -> None:
    """Pass the point `name` just after its step."""
    if _armed:
        _reach(f"{name}.after")


def _reach(place: str) -> None:
    for point in _armed.get(place, ()):
        if point.role is not None and point.role != _role:
            continue
        point.seen += 1
        if point.seen == point.hit and _record(point):
            _act(point.action, place)


def _record(point: Failpoint) -> bool:
    """Append the hit to the log; False if the log has it already."""
    path = os.environ.get("PENSTOCK_FAILPOINT_LOG")
    if path is None:
        return True
    line = f"{point.place} {point.action} {_role} {os.getpid()} {time.time_ns()} {point}\n"
    with open(path, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if any(known.split()[-1:] == [str(point)] for known in file):
            return False
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return True


def _act(action: str, place: str) -> None:
    kind, _, value = action.partition("=")
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "stop":
        # Stops the whole process until SIGCONT. Sent through this thread, so that it executes nothing more.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    elif kind == "raise":
        raise InjectedCrash(place)
    elif kind == "hang":
        time.sleep(HANG_S)
    else:
        time.sleep(int(value) / 1000)


arm(*parse(os.environ.get("PENSTOCK_FAILPOINT", "")))
