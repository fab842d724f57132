"""How records become bytes and bytes become records, for connectors that carry bytes. The names are PyFlink's."""

import codecs
from abc import ABC, abstractmethod
from typing import Any

from penstock.errors import UnsupportedValueError, UsageError
from penstock.model.types import TypeInformation, Types


class SerializationSchema(ABC):
    """Turns a record into bytes. Subclass it for a format of your own."""

    @abstractmethod
    def serialize(self, element: Any) -> bytes:
        """The bytes of a record."""


class DeserializationSchema(ABC):
    """Turns bytes into a record. Subclass it for a format of your own."""

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """The record in the bytes; None means that there is none."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """The type of the records."""


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Text in a charset.

    >>> SimpleStringSchema().serialize("é"), SimpleStringSchema("latin-1").deserialize(b"\\xe9")
    (b'\\xc3\\xa9', 'é')
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        try:
            codecs.lookup(charset)
        except LookupError as error:
            raise UsageError(f"there is no charset {charset!r}; use for example 'UTF-8'") from error
        self._charset = charset

    @property
    def charset(self) -> str:
        """The charset's name, as given."""
        return self._charset

    def serialize(self, element: Any) -> bytes:
        if not isinstance(element, str):
            raise UnsupportedValueError(
                f"SimpleStringSchema writes text, not {element!r}; map the records to str first"
            )
        return element.encode(self._charset)

    def deserialize(self, message: bytes) -> str:
        return message.decode(self._charset)

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are."""

    def serialize(self, element: Any) -> bytes:
        if not isinstance(element, bytes | bytearray | memoryview):
            raise UnsupportedValueError(
                f"ByteArraySchema writes bytes, not {element!r}; map the records to bytes first"
            )
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        return message

    def get_produced_type(self) -> TypeInformation:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class RowFieldExtractorSchema(SerializationSchema):
    """One field of a row, which holds bytes already: for example the key of a Kafka record.

    >>> RowFieldExtractorSchema(1).serialize(("ada", b"2"))
    b'2'
    """

    def __init__(self, field_index: int) -> None:
        if field_index < 0:
            raise ValueError(f"Field index must be non-negative, got: {field_index}")
        self._field_index = field_index

    def get_field_index(self) -> int:
        """The position of the field."""
        return self._field_index

    def serialize(self, element: Any) -> bytes:
        field = None if element is None else element[self._field_index]
        if field is None:
            return b""
        if not isinstance(field, bytes | bytearray | memoryview):
            raise UnsupportedValueError(
                f"field {self._field_index} of a row is {field!r}, not bytes; convert it before the sink"
            )
        return bytes(field)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowFieldExtractorSchema) and self._field_index == other._field_index

    def __hash__(self) -> int:
        return hash(self._field_index)
