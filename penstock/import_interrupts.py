"""Ctrl-C while a program imports Penstock: the program ends, without a traceback of Penstock's modules.

Importing this module sets the hook. Later interrupts are handled by `penstock.control.interrupts`.
"""

import sys
from pathlib import Path
from types import TracebackType

PACKAGE = str(Path(__file__).parent)


def is_of_import(traceback: TracebackType | None) -> bool:
    """Whether a module of Penstock was being imported."""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_name == "<module>" and code.co_filename.startswith(PACKAGE):
            return True
        traceback = traceback.tb_next
    return False


def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Python's own hook, except for an interrupted import."""
    if not (isinstance(error, KeyboardInterrupt) and is_of_import(traceback)):
        sys.__excepthook__(kind, error, traceback)


if sys.excepthook is sys.__excepthook__ and not sys.flags.interactive:
    sys.excepthook = hook
