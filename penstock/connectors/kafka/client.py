"""The only module that imports confluent_kafka: clients are made here, and its errors become ours here.

A client is a resource: close a consumer, flush a producer, keep a reference to an admin client.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from penstock.errors import (
    ConfigurationError,
    ConnectorError,
    ConnectorRefusedError,
    ConnectorUnavailableError,
    RecordsLostError,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient

Result = TypeVar("Result")
INSTALL = "pip install 'penstock[kafka]'"
EARLIEST, END = -2, -1
"""Offsets that the broker resolves: the first record there is, and the one after the last."""

JAVA_ONLY = frozenset(
    {
        "key.deserializer",
        "value.deserializer",
        "key.serializer",
        "value.serializer",
        "max.poll.records",
        "default.api.timeout.ms",
        "partition.discovery.interval.ms",
        "commit.offsets.on.checkpoint",
        "register.consumer.metrics",
        "client.id.prefix",
    }
)
"""Settings of Kafka's Java client, or of Flink, that have no counterpart here and change no result."""
JAVA_NAMES = {"max.request.size": "message.max.bytes", "buffer.memory": "", "max.block.ms": ""}
JAAS = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')

RETRY_S = 0.2
"""The pause before brokers are queried again."""
UNAVAILABLE = frozenset(
    {
        "_TRANSPORT",
        "_ALL_BROKERS_DOWN",
        "_TIMED_OUT",
        "_TIMED_OUT_QUEUE",
        "_MSG_TIMED_OUT",
        "_WAIT_COORD",
        "_RESOLVE",
        "REQUEST_TIMED_OUT",
        "BROKER_NOT_AVAILABLE",
        "LEADER_NOT_AVAILABLE",
        "_NOENT",  # no partition has a leader yet: it was created a moment ago
        "NOT_LEADER_FOR_PARTITION",
        "FENCED_LEADER_EPOCH",  # a broker was restarted, and the client does not know the new leaders yet
        "UNKNOWN_LEADER_EPOCH",
        "COORDINATOR_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "NOT_COORDINATOR",
        "NETWORK_EXCEPTION",
        "KAFKA_STORAGE_ERROR",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    }
)
"""Names of errors that may be temporary."""
REFUSED_CONNECTIONS = frozenset({"_AUTHENTICATION", "_SSL"})
"""Names of connection errors that are permanent."""
STEP_S = 1.0
LOST = frozenset({"OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET"})


def client_settings(servers: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """The settings of librdkafka for properties in its names or in those of Kafka's Java client.

    >>> client_settings("b:9092", {"sasl.jaas.config": '… username="ada" password="x";', "max.poll.records": "5"})
    {'bootstrap.servers': 'b:9092', 'sasl.username': 'ada', 'sasl.password': 'x'}
    """
    settings: dict[str, Any] = {"bootstrap.servers": servers}
    for name, value in properties.items():
        if name.startswith(("ssl.truststore.", "ssl.keystore.")) and name != "ssl.keystore.password":
            raise ConfigurationError(
                f"the property {name!r} names a Java key store, which librdkafka does not read; give PEM files with "
                f"'ssl.ca.location', 'ssl.certificate.location' and 'ssl.key.location'"
            )
        if name == "sasl.jaas.config":
            settings |= {f"sasl.{found}": text.replace('\\"', '"') for found, text in JAAS.findall(value)}
        elif name not in JAVA_ONLY and JAVA_NAMES.get(name, name):
            settings[JAVA_NAMES.get(name, name)] = value
    return settings


def open_consumer(settings: Mapping[str, Any]) -> "Consumer":
    """A consumer. librdkafka requires a `group.id`; a consumer that is assigned and never commits joins no group."""
    library = _library()
    consumer: Consumer = _made(lambda: library.Consumer({"group.id": "penstock", **settings, **_logging()}))
    return consumer


def open_producer(settings: Mapping[str, Any]) -> "Producer":
    """A producer; with `transactional.id`, initialize its transactions before the first one."""
    library = _library()
    producer: Producer = _made(lambda: library.Producer({**settings, **_logging()}))
    return producer


def open_admin(settings: Mapping[str, Any]) -> "AdminClient":
    """A client for topics and their settings."""
    _library()
    from confluent_kafka.admin import AdminClient

    return _made(lambda: AdminClient({**settings, **_logging()}))


def topic_partition(topic: str, partition: int, offset: int = -1001) -> Any:
    """A place in a partition, as consumers take it; without an offset, the partition."""
    return _library().TopicPartition(topic, partition, offset)


def call(what: str, action: Callable[[], Result]) -> Result:
    """The result of a call of a client. `what` names it in the error, for example "topic 'orders': the end offset"."""
    library = _library()
    try:
        return action()
    except library.KafkaException as error:
        raise translated(error.args[0], what) from None


def list_offsets(
    admin: "AdminClient",
    partitions: Sequence[tuple[str, int]],
    which: str | int,
    timeout_s: float,
    *,
    committed_only: bool,
) -> list[int]:
    """The `earliest` or `latest` offset of each partition, or that of the first record at a time in milliseconds.

    With `committed_only` the latest offset is that of the first open transaction. -1: no record is as late as the time.
    """
    library = _library()
    from confluent_kafka import admin as admin_library

    specs: Any = admin_library
    named = {"earliest": specs.OffsetSpec.earliest, "latest": specs.OffsetSpec.latest}
    spec = named[which]() if isinstance(which, str) else specs.OffsetSpec.for_timestamp(which)
    level = library.IsolationLevel.READ_COMMITTED if committed_only else library.IsolationLevel.READ_UNCOMMITTED
    asked = {library.TopicPartition(topic, number): spec for topic, number in partitions}
    what = f"offsets of topic {partitions[0][0]!r}"
    deadline_s = time.monotonic() + timeout_s
    while True:
        answers = call(what, lambda: admin.list_offsets(asked, isolation_level=level, request_timeout=timeout_s))
        try:
            return [call(what, answers[of].result).offset for of in asked]
        except ConnectorUnavailableError:
            if time.monotonic() + RETRY_S >= deadline_s:
                raise
            time.sleep(RETRY_S)
            # A partition that was added has a leader only after the client has asked for all topics.
            call(what, lambda: admin.list_topics(timeout=timeout_s))


def translated(error: Any, what: str) -> ConnectorError:
    """Translate a KafkaError. The caller handles those that are not failures, such as the end of a partition."""
    name, reason = error_name(error), str(error.str())
    text = f"{what}: Kafka answers {name}: {reason}"
    if name in LOST:
        return RecordsLostError(text)
    if name in UNAVAILABLE or error.retriable():
        return ConnectorUnavailableError(text)
    return ConnectorRefusedError(text)


def library_error() -> type[Exception]:
    """The class of the library's errors, for code that cannot use `call`."""
    found: type[Exception] = _library().KafkaException
    return found


def error_name(error: Any) -> str:
    """The name of a KafkaError, for example `_PARTITION_EOF`."""
    return str(error.name())


def raise_refused(what: str, way_out: str) -> NoReturn:
    """Raise the error for something that the broker does not have or allow."""
    raise ConnectorRefusedError(f"{what}; {way_out}")


def _made(make: Callable[[], Result]) -> Result:
    library = _library()
    try:
        return make()
    except library.KafkaException as error:
        raise ConfigurationError(f"Kafka's client refuses its settings: {error.args[0].str()}") from None


def _logging() -> dict[str, Any]:
    """Silence librdkafka, which writes to stderr even about what it retries successfully. Failures are raised.

    A lost transaction is of its highest level, although the commit is repeated. So lines go to a queue that nobody
    reads, where a few wait. With a `logger`, which is called within `flush`, a SystemError of `flush` was seen.
    """
    return {"log_level": 2, "log.queue": True}


def _library() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        raise ConfigurationError(f"Kafka needs the package confluent-kafka; {INSTALL}") from error
    return confluent_kafka


# ---- topics


def list_topics(settings: Mapping[str, Any], timeout_s: float) -> dict[str, list[int]]:
    """The topics on the broker and their partitions. Creates no topic. Reports refused credentials at once."""
    servers = settings["bootstrap.servers"]
    refusals: list[str] = []

    def note(error: Any) -> None:
        if error_name(error) in REFUSED_CONNECTIONS:
            refusals.append(str(error.str()))

    admin: Any = open_admin({**settings, "error_cb": note})
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            found = call(f"broker {servers}", lambda: admin.list_topics(timeout=STEP_S))
            return {name: sorted(topic.partitions) for name, topic in found.topics.items() if topic.error is None}
        except ConnectorUnavailableError as error:
            admin.poll(0)
            if refusals:
                raise ConnectorRefusedError(f"broker {servers} refuses the connection: {refusals[-1]}") from None
            if time.monotonic() >= deadline_s:
                raise ConnectorUnavailableError(
                    f"no broker answers at {servers} within {timeout_s:g} s; start it, or correct the address ({error})"
                ) from None


def create_topic(
    admin: Any, name: str, config: Mapping[str, str], timeout_s: float, *, only_validate: bool = False
) -> None:
    """Create a topic with one partition and the broker's number of replicas. One that exists by now is left alone."""
    topic = _admin_library().NewTopic(name, num_partitions=1, replication_factor=-1, config=dict(config))
    asked = admin.create_topics([topic], operation_timeout=timeout_s, validate_only=only_validate)
    try:
        asked[name].result()
    except _library().KafkaException as error:
        if error_name(error.args[0]) != "TOPIC_ALREADY_EXISTS":
            raise translated(error.args[0], f"topic {name!r} could not be created") from None


def topic_config(admin: Any, topic: str, timeout_s: float) -> dict[str, str]:
    """The settings of a topic; empty if the broker does not let us see them."""
    return _config(admin, "TOPIC", topic, timeout_s)


def broker_config(admin: Any, timeout_s: float) -> dict[str, str]:
    """The settings of one broker; empty if it does not let us see them."""
    brokers = call("brokers", lambda: admin.list_topics(timeout=timeout_s)).brokers
    return _config(admin, "BROKER", str(min(brokers)), timeout_s) if brokers else {}


def _config(admin: Any, kind: str, name: str, timeout_s: float) -> dict[str, str]:
    library = _admin_library()
    resource = library.ConfigResource(library.ResourceType[kind], name)
    try:
        found = admin.describe_configs([resource], request_timeout=timeout_s)[resource].result()
    except _library().KafkaException as error:
        if "AUTHORIZATION" in error_name(error.args[0]):
            return {}
        raise translated(error.args[0], f"settings of {kind.lower()} {name!r}") from None
    return {key: entry.value for key, entry in found.items()}


def _admin_library() -> Any:
    _library()
    from confluent_kafka import admin

    return admin
