"""The Kafka sink (features Q5, Q7; PROTOCOL R28).

Exactly once: rows wait with their checkpoint; the JobManager writes the rows of all subtasks in one transaction with a
marker. Readers with `isolation.level=read_committed` see a checkpoint's rows at once, each row once. At least once and
without a guarantee: the subtasks send rows as they come.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.connectors.kafka import client
from penstock.connectors.kafka.kafka_records import KafkaRecordEncoder
from penstock.connectors.kafka.marker_topic import DEFAULT_NAME, MarkerTopic
from penstock.connectors.kafka.producers import (
    TRANSACTION_TIMEOUT_MS,
    KafkaTransactionClient,
    ProducerSettings,
    RecordSender,
)
from penstock.connectors.kafka.producing_writer import ProducingWriter
from penstock.connectors.kafka.record_schema import KafkaRecordSerializationSchema
from penstock.connectors.kafka.topic_lookup import LOOKUP_TIMEOUT_S, TopicLookup, max_record_bytes
from penstock.connectors.kafka.transactions import kept_transactions
from penstock.connectors.staged.staged_sink import StagedOutput, StagedSink
from penstock.errors import ArgumentError, ArgumentValueError, UsageError
from penstock.model.delivery import Delivery
from penstock.model.sink import DeliveryGuarantee, SinkContext, SinkWriter
from penstock.model.types import TypeInformation

DEFAULT_PREFIX = "penstock"
SET_BY_SINK = frozenset({"transactional.id", "enable.idempotence", "bootstrap.servers"})


@dataclass(frozen=True)
class KafkaSink(StagedSink):
    """Records as Kafka records. Made by `KafkaSink.builder()`.

    >>> from penstock.common import SimpleStringSchema
    >>> totals = (
    ...     KafkaRecordSerializationSchema.builder()
    ...     .set_topic("totals")
    ...     .set_value_serialization_schema(SimpleStringSchema())
    ...     .build()
    ... )
    >>> sink = (
    ...     KafkaSink.builder()
    ...     .set_bootstrap_servers("localhost:9092")
    ...     .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    ...     .set_record_serializer(totals)
    ...     .build()
    ... )
    >>> sink.servers, sink.guarantee.name
    ('localhost:9092', 'EXACTLY_ONCE')
    """

    servers: str
    schema: KafkaRecordSerializationSchema
    guarantee: DeliveryGuarantee
    prefix: str
    """Of `transactional.id`."""
    marker_topic: str
    properties: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def builder() -> "KafkaSinkBuilder":
        """Starts a sink."""
        return KafkaSinkBuilder()

    @property
    def is_exact(self) -> bool:
        """Whether rows are published in transactions."""
        return self.guarantee is DeliveryGuarantee.EXACTLY_ONCE

    @property
    def allows_fallback(self) -> bool:
        return not self.is_exact

    @property
    def delivery(self) -> Delivery:
        return self.guarantee.delivery

    def check(self, record_type: TypeInformation) -> None:
        settings = self._settings()
        lookup = TopicLookup(settings.for_reading())
        if self.schema.topic is not None:
            lookup.partitions(self.schema.topic)
            lookup.require_size(self.schema.topic, max_record_bytes(settings.for_reading()))
        else:
            client.list_topics(settings.for_reading(), LOOKUP_TIMEOUT_S)
        if self.is_exact:
            timeout_ms = settings.for_reading().get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
            lookup.require_transaction_timeout(int(timeout_ms))
            self._markers(settings).check()

    def encoder(self, context: SinkContext) -> KafkaRecordEncoder:
        settings = self._settings().for_reading()
        return KafkaRecordEncoder(self.schema, TopicLookup(settings), max_record_bytes(settings))

    def open(self, context: SinkContext) -> SinkWriter:
        if self.is_exact:
            return super().open(context)
        settings = self._settings()
        sender = RecordSender(settings.for_producer(), settings.servers)
        return ProducingWriter(self.encoder(context), sender, waits=self.guarantee is DeliveryGuarantee.AT_LEAST_ONCE)

    def publish(self, output: StagedOutput) -> None:
        settings = self._settings()
        name = f"{self.prefix}-{output.job_id}-{output.sink_uid}"

        def open_client() -> KafkaTransactionClient:
            return KafkaTransactionClient(settings, name, self._markers(settings), output.owner)

        kept_transactions((settings, name, self.marker_topic), open_client).publish(output)

    def _settings(self) -> ProducerSettings:
        settings = client.client_settings(self.servers, dict(self.properties))
        return ProducerSettings(self.servers, tuple(sorted(settings.items())))

    def _markers(self, settings: ProducerSettings) -> MarkerTopic:
        return MarkerTopic(settings.for_reading(), self.marker_topic)


class KafkaSinkBuilder:
    """PyFlink's builder of a KafkaSink. `set_marker_topic` and `set_properties` are additions."""

    def __init__(self) -> None:
        self._servers: str | None = None
        self._schema: KafkaRecordSerializationSchema | None = None
        self._guarantee = DeliveryGuarantee.NONE
        self._prefix = DEFAULT_PREFIX
        self._marker_topic = DEFAULT_NAME
        self._properties: dict[str, str] = {}

    def set_bootstrap_servers(self, bootstrap_servers: str) -> "KafkaSinkBuilder":
        """Set the brokers to start from: `host:port`, several separated by commas."""
        if not isinstance(bootstrap_servers, str) or not bootstrap_servers.strip():
            raise ArgumentValueError(f"give the brokers as 'host:port,host:port', not {bootstrap_servers!r}")
        self._servers = bootstrap_servers
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> "KafkaSinkBuilder":
        """Set what a failure may do to records. As in Flink the default is NONE: they may be lost or come twice."""
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise ArgumentError(
                f"give DeliveryGuarantee.EXACTLY_ONCE, AT_LEAST_ONCE or NONE, not {delivery_guarantee!r}"
            )
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> "KafkaSinkBuilder":
        """Set how transactional ids begin; job and sink follow. Brokers may grant rights by this prefix.

        If it changes, let the last driver with the old prefix end first: the new one cannot fence it.
        """
        if not transactional_id_prefix:
            raise ArgumentValueError("the prefix of transactional ids must not be empty")
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> "KafkaSinkBuilder":
        """Set how records become Kafka records."""
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            hint = "; call .build() on it" if hasattr(record_serializer, "build") else ""
            raise ArgumentError(
                f"set_record_serializer() takes a KafkaRecordSerializationSchema{hint}, not {record_serializer!r}"
            )
        self._schema = record_serializer
        return self

    def set_property(self, key: str, value: str) -> "KafkaSinkBuilder":
        """Set an option of the producer, such as `compression.type`; names of librdkafka or of the Java client."""
        if key in SET_BY_SINK:
            raise ArgumentValueError(f"the sink sets {key!r} itself; remove set_property({key!r}, …)")
        self._properties[key] = str(value)
        return self

    def set_properties(self, props: Mapping[str, str]) -> "KafkaSinkBuilder":
        """Set several options of the producer."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def set_marker_topic(self, topic: str) -> "KafkaSinkBuilder":
        """Set the compacted topic that remembers which checkpoint is published. It is created if it is missing.

        A job must keep the same one: without its marker, the commit of its last checkpoint would be repeated.
        """
        if not topic:
            raise ArgumentValueError("the name of the marker topic must not be empty")
        self._marker_topic = topic
        return self

    def build(self) -> KafkaSink:
        """The sink."""
        if self._servers is None:
            raise UsageError("a KafkaSink needs a broker: call set_bootstrap_servers('host:port')")
        if self._schema is None:
            raise UsageError(
                "a KafkaSink needs to know its topic and format: call "
                "set_record_serializer(KafkaRecordSerializationSchema.builder()….build())"
            )
        properties = tuple(sorted(self._properties.items()))
        client.client_settings(self._servers, self._properties)  # refuses what librdkafka cannot read
        return KafkaSink(self._servers, self._schema, self._guarantee, self._prefix, self._marker_topic, properties)
