"""Values of flags that need no check are not checked by Typer.

Typer checks them with pydantic, whose import alone takes longer than most commands. A text needs no check; a value that
does, such as a number on the command line, is handed to Typer.
"""

from collections.abc import Callable
from typing import Any

import typer.core


class ValueCheck:
    """Takes the place of Typer's check of one parameter, which is made when it is needed."""

    def __init__(self, descriptor: Any, make_check: Callable[[Any], Any]) -> None:
        self._descriptor = descriptor
        self._make_check = make_check
        is_parsed = descriptor.parameter_info.parser is not None
        self._is_text = descriptor.annotation in (str, list[str]) and not is_parsed

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value for the command's function."""
        is_several = param.multiple or param.nargs == -1
        if value is None:
            return () if is_several else None
        if value is param.default and isinstance(value, int):
            return value
        if self._is_text and is_several and not isinstance(value, str) and all(isinstance(text, str) for text in value):
            return list(value)
        if self._is_text and not is_several and isinstance(value, str):
            return value
        return self._make_check(self._descriptor).coerce(value, param=param, ctx=ctx)


def check_only_what_needs_it() -> None:
    """Use ValueCheck for all commands.

    It takes the place of a function that Typer does not declare as public; where there is none, nothing changes.
    """
    make_check = getattr(typer.core, "build_runtime_param", None)
    if make_check is not None and not getattr(make_check, "is_ours", False):

        def build(descriptor: Any) -> ValueCheck:
            return ValueCheck(descriptor, make_check)

        build.is_ours = True  # type: ignore[attr-defined]
        typer.core.build_runtime_param = build  # type: ignore[attr-defined,assignment]
