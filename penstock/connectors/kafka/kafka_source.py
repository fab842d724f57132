"""A Kafka source: what is read, from where, up to where, and how messages become records. PyFlink's names.

The source is plain data; `penstock.spark.kafka_stream` lets Spark read it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from penstock.connectors.kafka.client import client_settings
from penstock.errors import ArgumentError, UsageError
from penstock.model.delivery import Delivery
from penstock.model.serialization_schemas import DeserializationSchema
from penstock.model.types import TypeInformation, Types
from penstock.model.watermark import TimestampAssigner

TIMESTAMP_COLUMN = "__kafka_timestamp"
PARTITION_COLUMN = "__kafka_partition"
METADATA: dict[str, TypeInformation] = {
    "key": Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "headers": Types.LIST(Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE())])),
    "topic": Types.STRING(),
    "partition": Types.INT(),
    "offset": Types.LONG(),
    "timestamp": Types.LONG(),
}
"""What a message has beside its value, as fields of records."""
DISCOVERY = "partition.discovery.interval.ms"
COMMIT = "commit.offsets.on.checkpoint"
DEFAULT_DISCOVERY_MS = 10_000


@dataclass(frozen=True, order=True)
class KafkaTopicPartition:
    """A partition of a topic."""

    topic: str
    partition: int

    def __post_init__(self) -> None:
        if not isinstance(self.topic, str) or not isinstance(self.partition, int) or self.partition < 0:
            raise ArgumentError(f"a partition is a topic and a number, not {self.topic!r} and {self.partition!r}")


class KafkaOffsetResetStrategy(Enum):
    """Where to begin in a partition for which no offset is known."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2
    """Raise an error."""


@dataclass(frozen=True)
class KafkaOffsetsInitializer:
    """Where to begin or to end in each partition."""

    kind: str
    """earliest, latest, timestamp, committed or offsets."""
    reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE
    timestamp_ms: int = 0
    given: Mapping[KafkaTopicPartition, int] = field(default_factory=dict)

    @staticmethod
    def earliest() -> "KafkaOffsetsInitializer":
        """At the first record that the broker has."""
        return KafkaOffsetsInitializer("earliest")

    @staticmethod
    def latest() -> "KafkaOffsetsInitializer":
        """After the last record that the broker has when the source starts."""
        return KafkaOffsetsInitializer("latest")

    @staticmethod
    def timestamp(timestamp: int) -> "KafkaOffsetsInitializer":
        """At the first record with this timestamp or a later one, in milliseconds; at the end if there is none."""
        if timestamp < 0:
            raise UsageError(f"a timestamp of {timestamp}; give milliseconds since 1970")
        return KafkaOffsetsInitializer("timestamp", timestamp_ms=timestamp)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> "KafkaOffsetsInitializer":
        """At the committed offset of the source's group."""
        return KafkaOffsetsInitializer("committed", offset_reset_strategy)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> "KafkaOffsetsInitializer":
        """At these offsets; partitions that are not named begin at their committed offset or by the strategy."""
        for partition, offset in offsets.items():
            if not isinstance(partition, KafkaTopicPartition) or not isinstance(offset, int) or offset < 0:
                raise ArgumentError(
                    f"{partition!r}: {offset!r} must be a KafkaTopicPartition and an offset of 0 or more"
                )
        return KafkaOffsetsInitializer("offsets", offset_reset_strategy, given=dict(offsets))


@dataclass(frozen=True)
class KafkaSource:
    """The records of topics, with exactly-once semantics for state: offsets are part of every checkpoint.

    >>> from penstock.common.serialization import SimpleStringSchema
    >>> source = (
    ...     KafkaSource.builder()
    ...     .set_bootstrap_servers("localhost:9092")
    ...     .set_topics("orders")
    ...     .set_value_only_deserializer(SimpleStringSchema())
    ...     .build()
    ... )
    >>> source.bounded, source.record_type
    (False, TypeInformation('STRING'))
    """

    servers: str
    deserializer: DeserializationSchema
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[KafkaTopicPartition, ...] = ()
    group_id: str | None = None
    starting: KafkaOffsetsInitializer = KafkaOffsetsInitializer("earliest")
    stopping: KafkaOffsetsInitializer | None = None
    bounded: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    metadata: tuple[str, ...] = ()
    fail_on_data_loss: bool = True
    assigner: TimestampAssigner | None = None
    """Assigns event timestamps instead of the messages' own."""
    has_event_time: bool = False

    @staticmethod
    def builder() -> "KafkaSourceBuilder":
        """Starts a source."""
        return KafkaSourceBuilder()

    @property
    def record_type(self) -> TypeInformation:
        """The deserializer's type; with metadata, a row of its fields (or of `value`) and those of the metadata."""
        produced = self.deserializer.get_produced_type()
        if not self.metadata:
            return produced
        names = list(produced.names) if produced.names is not None else ["value"]
        types = list(produced.children) if produced.names is not None else [produced]
        return Types.ROW_NAMED([*names, *self.metadata], [*types, *(METADATA[name] for name in self.metadata)])

    @property
    def delivery(self) -> Delivery:
        """The guarantee of the source."""
        if not self.fail_on_data_loss:
            return Delivery.at_most_once(
                "it skips records that the broker deletes before they are read, as it was asked to",
                "remove set_fail_on_data_loss(False)",
            )
        if self.settings["isolation.level"] != "read_committed":
            return Delivery.unknown(
                "it reads records of transactions that may be aborted, as it was asked to",
                "remove the property isolation.level",
            )
        return Delivery.exactly_once()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of its consumers. By default only records of committed transactions are read."""
        given = client_settings(self.servers, self.properties)
        group = {} if self.group_id is None else {"group.id": self.group_id}
        return {"isolation.level": "read_committed", **given, **group}

    @property
    def discovery_s(self) -> float | None:
        """How often topics and partitions are looked up; None: only at the start."""
        interval_ms = int(self.properties.get(DISCOVERY, DEFAULT_DISCOVERY_MS))
        return None if interval_ms <= 0 or self.bounded else interval_ms / 1000

    @property
    def commits_offsets(self) -> bool:
        """Whether offsets of completed checkpoints are committed to the group. A restore does not use them."""
        return self.group_id is not None and str(self.properties.get(COMMIT, "true")).lower() == "true"

    @property
    def description(self) -> str:
        """What it reads, for messages."""
        if self.pattern is not None:
            return f"topics like {self.pattern!r}"
        names = sorted(set(self.topics) | {partition.topic for partition in self.partitions})
        return f"topic {names[0]!r}" if len(names) == 1 else "topics " + ", ".join(map(repr, names))

    def with_event_time(self, assigner: TimestampAssigner | None) -> "KafkaSource":
        """The same source, whose records carry a timestamp: that of the assigner, or the message's own."""
        return replace(self, assigner=assigner, has_event_time=True)


class KafkaSourceBuilder:
    """PyFlink's builder of a KafkaSource."""

    def __init__(self) -> None:
        self._servers: str | None = None
        self._deserializer: DeserializationSchema | None = None
        self._values: dict[str, Any] = {}
        self._properties: dict[str, str] = {}

    def set_bootstrap_servers(self, bootstrap_servers: str) -> "KafkaSourceBuilder":
        """Set the brokers, as `host:port,host:port`."""
        self._servers = bootstrap_servers
        return self

    def set_group_id(self, group_id: str) -> "KafkaSourceBuilder":
        """Set the consumer group, to which the offsets of completed checkpoints are committed."""
        self._values["group_id"] = group_id
        return self

    def set_topics(self, *topics: str) -> "KafkaSourceBuilder":
        """Read these topics."""
        self._subscribe("topics", tuple(topics))
        return self

    def set_topic_pattern(self, topic_pattern: str) -> "KafkaSourceBuilder":
        """Read all topics whose whole name matches the regular expression, including those that are created later."""
        try:
            re.compile(topic_pattern)
        except re.error as error:
            raise UsageError(f"the topic pattern {topic_pattern!r} is not a regular expression: {error}") from error
        self._subscribe("pattern", topic_pattern)
        return self

    def set_partitions(self, partitions: Iterable[KafkaTopicPartition]) -> "KafkaSourceBuilder":
        """Read these partitions only."""
        self._subscribe("partitions", tuple(sorted(partitions)))
        return self

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> "KafkaSourceBuilder":
        """Set where a job begins that has no checkpoint; `earliest()` unless set."""
        self._values["starting"] = _initializer(starting_offsets_initializer)
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> "KafkaSourceBuilder":
        """Read up to these offsets and keep running without new records."""
        self._values |= {"stopping": _initializer(stopping_offsets_initializer), "bounded": False}
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> "KafkaSourceBuilder":
        """Read up to these offsets, which are fixed when the job starts, and end there."""
        self._values |= {"stopping": _initializer(stopping_offsets_initializer), "bounded": True}
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> "KafkaSourceBuilder":
        """Set how the value of a message becomes a record. Messages without a value are left out."""
        if not isinstance(deserialization_schema, DeserializationSchema):
            raise ArgumentError(
                f"{deserialization_schema!r} is not a DeserializationSchema; use for example SimpleStringSchema()"
            )
        self._deserializer = deserialization_schema
        return self

    def set_metadata(self, *fields: str) -> "KafkaSourceBuilder":
        """Add fields to the records: "key", "headers", "topic", "partition", "offset", "timestamp". Not in PyFlink.

        Messages without a value then become records too, with None in the fields of the value.
        """
        unknown = [name for name in fields if name not in METADATA]
        if unknown:
            raise UsageError(f"a message has no {unknown[0]!r}; it has {', '.join(map(repr, METADATA))}")
        self._values["metadata"] = fields
        return self

    def set_fail_on_data_loss(self, fail_on_data_loss: bool) -> "KafkaSourceBuilder":  # noqa: FBT001 - a setter
        """Set whether the job fails if records were deleted before it read them (the default). Not in PyFlink."""
        self._values["fail_on_data_loss"] = fail_on_data_loss
        return self

    def set_client_id_prefix(self, prefix: str) -> "KafkaSourceBuilder":
        """Set the name under which the consumers appear in the broker's logs."""
        return self.set_property("client.id", prefix)

    def set_property(self, key: str, value: str) -> "KafkaSourceBuilder":
        """Set a property of the client, in librdkafka's name or that of Kafka's Java client."""
        self._properties[key] = str(value)
        return self

    def set_properties(self, props: Mapping[str, str]) -> "KafkaSourceBuilder":
        """Set several properties."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSource:
        """The source."""
        properties = dict(self._properties)
        servers = self._servers or properties.pop("bootstrap.servers", None)
        group_id = properties.pop("group.id", None)
        if group_id is not None:
            self._values.setdefault("group_id", group_id)
        properties.pop("bootstrap.servers", None)
        if not servers:
            raise UsageError("a Kafka source needs its brokers: set_bootstrap_servers('host:9092')")
        if self._deserializer is None:
            raise UsageError(
                "a Kafka source needs set_value_only_deserializer(), for example with SimpleStringSchema()"
            )
        if not any(self._values.get(name) for name in ("topics", "pattern", "partitions")):
            raise UsageError("a Kafka source needs set_topics(), set_topic_pattern() or set_partitions()")
        source = KafkaSource(servers, self._deserializer, properties=properties, **self._values)
        used = {source.starting.kind} | ({source.stopping.kind} if source.stopping is not None else set())
        if "committed" in used and source.group_id is None:
            raise UsageError("committed offsets belong to a consumer group: set_group_id()")
        _ = source.settings, source.record_type  # refuse now what a job could not use
        return source

    def _subscribe(self, kind: str, value: Any) -> None:
        others = [name for name in ("topics", "pattern", "partitions") if name != kind and self._values.get(name)]
        if others:
            raise UsageError("a Kafka source has either topics, a topic pattern or partitions; set one of them")
        self._values[kind] = value


def _initializer(value: Any) -> KafkaOffsetsInitializer:
    if not isinstance(value, KafkaOffsetsInitializer):
        raise ArgumentError(
            f"{value!r} is not a KafkaOffsetsInitializer; use for example KafkaOffsetsInitializer.earliest()"
        )
    return value
