"""A list or dictionary that a seal and the undo of an epoch can hold on to without a copy."""

from copy import copy
from typing import Any, Generic, TypeVar

C = TypeVar("C", bound=list[Any] | dict[Any, Any])


class Held(Generic[C]):
    """Copied before its first change while somebody else holds it.

    What is in it is replaced, never modified, so a copy of the container alone is enough.
    """

    __slots__ = ("_base", "_is_held", "live")

    def __init__(self, content: C) -> None:
        self.live = content
        self._base = content
        self._is_held = True

    def own(self) -> C:
        """The content, to be changed in place."""
        if self._is_held:
            self.live = copy(self.live)
            self._is_held = False
        return self.live

    def replace(self, content: C) -> None:
        """Put another content in place, which nobody else holds."""
        self.live = content
        self._is_held = False

    def hold(self) -> C:
        """The content, which from now on is not changed."""
        self._is_held = True
        return self.live

    def keep(self) -> None:
        """What is here now is what `roll_back` goes back to; before the first time that is the first content."""
        self._base = self.hold()

    def roll_back(self) -> None:
        """Take back what changed since `keep`."""
        self.live = self._base
        self._is_held = True
