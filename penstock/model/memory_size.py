"""`MemorySize`: a number of bytes."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class MemorySize:
    """A number of bytes, in whole units of any size.

    >>> MemorySize.of_mebi_bytes(3).get_kibi_bytes()
    3072
    """

    bytes_size: int

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> "MemorySize":
        """A size of this many mebibytes."""
        return MemorySize(mebi_bytes << 20)

    def get_bytes(self) -> int:
        """The size in bytes."""
        return self.bytes_size

    def get_kibi_bytes(self) -> int:
        """The size in whole kibibytes."""
        return self.bytes_size >> 10

    def get_mebi_bytes(self) -> int:
        """The size in whole mebibytes."""
        return self.bytes_size >> 20

    def get_gibi_bytes(self) -> int:
        """The size in whole gibibytes."""
        return self.bytes_size >> 30

    def get_tebi_bytes(self) -> int:
        """The size in whole tebibytes."""
        return self.bytes_size >> 40

    def __str__(self) -> str:
        return f"{self.bytes_size} bytes"
