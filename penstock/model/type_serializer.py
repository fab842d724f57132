"""`TypeSerializer`: the bytes of a type that is neither plain nor declared, as PyFlink's windows have it."""

from abc import ABC, abstractmethod
from typing import IO, Any, Generic, TypeVar

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes and reads the values of one type. Two of one class with equal attributes are equal."""

    @abstractmethod
    def serialize(self, element: T, stream: IO[bytes]) -> None:
        """Write a value."""

    @abstractmethod
    def deserialize(self, stream: IO[bytes]) -> T:
        """Read a value."""

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
