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
        """The size in the largest unit of which it is a whole number, as Flink writes it: `5 mb`, `1500 bytes`."""
        unit, name = 1, "bytes"
        for shift, larger in ((10, "kb"), (20, "mb"), (30, "gb"), (40, "tb")):
            if self.bytes_size and self.bytes_size % (1 << shift) == 0:
                unit, name = 1 << shift, larger
        return f"{self.bytes_size // unit} {name}"
