"""PyFlink's `Encoder`: how records are written as text to row-format files."""

import codecs
from dataclasses import dataclass

from penstock.errors import UsageError


@dataclass(frozen=True)
class Encoder:
    """Writes `str(record)` and a line end for each record."""

    charset_name: str = "UTF-8"

    def __post_init__(self) -> None:
        try:
            codecs.lookup(self.charset_name)
        except LookupError as error:
            raise UsageError(f"there is no charset {self.charset_name!r}; use for example 'UTF-8'") from error

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> "Encoder":
        """An encoder of text lines in a charset."""
        return Encoder(charset_name)


@dataclass(frozen=True)
class BulkWriterFactory:
    """The format of column files, for `FileSink.for_bulk_format`. `ParquetBulkWriters` and others make it."""

    format_name: str
    options: tuple[tuple[str, str], ...] = ()
