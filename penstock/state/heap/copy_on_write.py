"""A list or dictionary that seals and the undo of an epoch can share without a copy."""

from copy import copy
from typing import Any, Generic, TypeVar

C = TypeVar("C", bound=list[Any] | dict[Any, Any])


class CopyOnWrite(Generic[C]):
    """A container that is copied before its first change if it is shared.

    Its elements are replaced, never modified, so a shallow copy is enough.
    """

    __slots__ = ("_base", "_is_shared", "live")

    def __init__(self, content: C) -> None:
        self.live = content
        self._base = content
        self._is_shared = True

    def writable(self) -> C:
        """The content, for changes in place."""
        if self._is_shared:
            self.live = copy(self.live)
            self._is_shared = False
        return self.live

    def replace(self, content: C) -> None:
        """Replace the content by one that is not shared."""
        self.live = content
        self._is_shared = False

    def share(self) -> C:
        """The content, which is not changed from now on."""
        self._is_shared = True
        return self.live

    def commit(self) -> None:
        """Make the present content the one that `roll_back` returns to. Initially that is the first content."""
        self._base = self.share()

    def roll_back(self) -> None:
        """Undo the changes since `commit`."""
        self.live = self._base
        self._is_shared = True
