"""`penstock dev`: a broker or a database on this machine."""

import os
from typing import Annotated

import typer

from penstock.cli.flags import DebugFlag, JsonFlag
from penstock.control.terminal import print_message, print_result
from penstock.services import find_running, load_service, service_names, start_service

ServiceArgument = Annotated[str, typer.Argument(metavar="SERVICE", help=f"One of {', '.join(service_names())}.")]
StopFlag = Annotated[bool, typer.Option("--stop", help="Stop it and remove its data.")]


def dev(*, service: ServiceArgument, stop: StopFlag = False, json: JsonFlag = False, debug: DebugFlag = False) -> None:
    """Start a broker or a database on this machine, for tests and first steps.

    It runs in the background until `--stop`, or until the terminal's session ends; then its data is removed. The
    address is printed; a second start prints it again.
    """
    load_service(service)  # raises if there is none of that name
    if stop:
        _stop(service)
        return
    running = find_running(service)
    if running is None:
        print_message(f"starting {service}; the first start may fetch it, which takes a minute")
        running = start_service(service, owner_pid=os.getsid(0))
    print_result(running.address, {"service": service, "address": running.address})


def _stop(name: str) -> None:
    running = find_running(name)
    if running is not None:
        running.stop()
    text = f"{name} is not running" if running is None else f"{name} was stopped and its data removed"
    print_result(text, {"service": name, "stopped": running is not None})
