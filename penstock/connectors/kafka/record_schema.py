"""How a record becomes a Kafka record: topic, key, value, and what else there is. The names are PyFlink's."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from penstock.errors import ArgumentError, ArgumentValueError, UsageError
from penstock.model.serialization_schemas import SerializationSchema

Headers: TypeAlias = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]
Partitioner: TypeAlias = Callable[[Any, bytes | None, bytes | None, str, list[int]], int]
"""Called with the record, its key and value in bytes, the topic and the numbers of its partitions."""
MAX_TOPIC_CHARS = 249


class KafkaTopicSelector(ABC):
    """Chooses the topic of each record."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """The topic of a record."""


@dataclass(frozen=True)
class KafkaRecordSerializationSchema:
    """How records become Kafka records.

    >>> from penstock.common import SimpleStringSchema
    >>> schema = (
    ...     KafkaRecordSerializationSchema.builder()
    ...     .set_topic("totals")
    ...     .set_value_serialization_schema(SimpleStringSchema())
    ...     .build()
    ... )
    >>> schema.topic_of("ada 2"), schema.value.serialize("ada 2")
    ('totals', b'ada 2')
    """

    topic: str | None
    """None if `selector` chooses it."""
    selector: Callable[[Any], str] | None
    key: SerializationSchema | None
    value: SerializationSchema
    partitioner: Partitioner | None = None
    headers: Callable[[Any], Headers | None] | None = None
    timestamp: Callable[[Any], int | None] | None = None

    @staticmethod
    def builder() -> "KafkaRecordSerializationSchemaBuilder":
        """Starts a schema."""
        return KafkaRecordSerializationSchemaBuilder()

    def topic_of(self, record: Any) -> str:
        """The topic of a record."""
        if self.selector is None:
            assert self.topic is not None
            return self.topic
        topic = self.selector(record)
        if not isinstance(topic, str) or not 0 < len(topic) <= MAX_TOPIC_CHARS:
            raise UsageError(
                f"the topic selector returned {topic!r} for {record!r}; it must return the name of a topic"
            )
        return topic


class KafkaRecordSerializationSchemaBuilder:
    """PyFlink's builder of the schema. Headers, timestamps and the partitioner are additions."""

    def __init__(self) -> None:
        self._topic: str | None = None
        self._selector: Callable[[Any], str] | None = None
        self._key: SerializationSchema | None = None
        self._value: SerializationSchema | None = None
        self._partitioner: Partitioner | None = None
        self._headers: Callable[[Any], Headers | None] | None = None
        self._timestamp: Callable[[Any], int | None] | None = None

    def set_topic(self, topic: str) -> "KafkaRecordSerializationSchemaBuilder":
        """Write all records to this topic."""
        if not isinstance(topic, str) or not 0 < len(topic) <= MAX_TOPIC_CHARS:
            raise ArgumentValueError(f"{topic!r} is not the name of a topic")
        self._topic = topic
        return self

    def set_topic_selector(
        self, topic_selector: Callable[[Any], str] | KafkaTopicSelector
    ) -> "KafkaRecordSerializationSchemaBuilder":
        """Write each record to the topic that the selector returns for it."""
        if isinstance(topic_selector, KafkaTopicSelector):
            self._selector = topic_selector.apply
        else:
            self._selector = _function(topic_selector, "set_topic_selector", "a record")
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> "KafkaRecordSerializationSchemaBuilder":
        """Set how the whole record becomes the key. Records of one key go to one partition, in their order."""
        self._key = _schema(key_serialization_schema, "set_key_serialization_schema")
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> "KafkaRecordSerializationSchemaBuilder":
        """Set how the whole record becomes the value."""
        self._value = _schema(value_serialization_schema, "set_value_serialization_schema")
        return self

    def set_partitioner(self, partitioner: Partitioner) -> "KafkaRecordSerializationSchemaBuilder":
        """Choose the partition: a function of record, key, value, topic and the list of the topic's partitions.

        By default the key decides, as in Kafka's Java client; records without a key are spread.
        """
        self._partitioner = _function(partitioner, "set_partitioner", "record, key, value, topic and partitions")
        return self

    def set_header_provider(
        self, header_provider: Callable[[Any], Headers | None]
    ) -> "KafkaRecordSerializationSchemaBuilder":
        """Set the headers: a function of a record that returns a dict, or (name, bytes) pairs."""
        self._headers = _function(header_provider, "set_header_provider", "a record")
        return self

    def set_timestamp_provider(
        self, timestamp_provider: Callable[[Any], int | None]
    ) -> "KafkaRecordSerializationSchemaBuilder":
        """Set the timestamp: a function of a record that returns milliseconds. By default it is the time of sending."""
        self._timestamp = _function(timestamp_provider, "set_timestamp_provider", "a record")
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """The schema."""
        if self._value is None:
            raise UsageError("the records need a value: call set_value_serialization_schema(SimpleStringSchema())")
        if (self._topic is None) == (self._selector is None):
            raise UsageError("give the records one topic: call either set_topic(name) or set_topic_selector(function)")
        schema = KafkaRecordSerializationSchema(self._topic, self._selector, self._key, self._value)
        return replace(schema, partitioner=self._partitioner, headers=self._headers, timestamp=self._timestamp)


def _schema(found: Any, method: str) -> SerializationSchema:
    if not isinstance(found, SerializationSchema):
        hint = "; call .build() on it" if hasattr(found, "build") else ", such as SimpleStringSchema()"
        raise ArgumentError(f"{method}() takes a SerializationSchema{hint}, not {found!r}")
    return found


def _function(found: Any, method: str, parameters: str) -> Any:
    if not callable(found):
        raise ArgumentError(f"{method}() takes a function of {parameters}, not {found!r}")
    return found
