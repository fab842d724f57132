"""The Kafka sink on a broker in memory: the conformance suite, markers, fencing, records and settings."""

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from penstock.common import Row, SimpleStringSchema, Types
from penstock.connectors.kafka import kafka_sink, transactions
from penstock.connectors.kafka.kafka_records import KafkaRecord, KafkaRecordEncoder, decode, header_list
from penstock.connectors.kafka.kafka_sink import KafkaSink
from penstock.connectors.kafka.producers import ProducerSettings
from penstock.connectors.kafka.producing_writer import ProducingWriter
from penstock.connectors.kafka.record_schema import KafkaRecordSerializationSchema, KafkaTopicSelector
from penstock.connectors.kafka.transactions import KafkaTransactions, kept_transactions
from penstock.connectors.staged.staged_sink import StagedOutput, staged_outputs
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.formats import JsonRowSerializationSchema
from penstock.errors import ArgumentError, ConfigurationError, ConnectorRefusedError, UnsupportedValueError, UsageError
from penstock.model.ids import StageId, SubtaskId
from penstock.model.sink import Sink, SinkContext
from penstock.model.snapshot import Committable
from penstock.testing.conformance_sink import CHECKS, RECORD_TYPE, SinkSystem
from tests.connectors.fake_kafka import FakeBroker, FakeClient

JSON = JsonRowSerializationSchema.builder().with_type_info(RECORD_TYPE).build()


@pytest.fixture(autouse=True)
def no_kept_clients() -> Iterator[None]:
    transactions._open.clear()
    yield
    transactions._open.clear()


def schema_of(**options: Any) -> KafkaRecordSerializationSchema:
    found = KafkaRecordSerializationSchema.builder().set_topic("out").set_value_serialization_schema(JSON).build()
    return KafkaRecordSerializationSchema(**{**vars(found), **options})


def schema_builder() -> Any:
    return KafkaRecordSerializationSchema.builder()


def builder(schema: KafkaRecordSerializationSchema | None = None) -> Any:
    return KafkaSink.builder().set_bootstrap_servers("broker:9092").set_record_serializer(schema or schema_of())


def exact_sink() -> KafkaSink:
    sink: KafkaSink = builder().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()
    return sink


# ---- the conformance suite


class Broker(SinkSystem):
    """A KafkaSink whose every call to the broker fails before and after."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, keeps_clients: bool) -> None:
        super().__init__()
        self.broker = FakeBroker()

        def open_client(settings: Any, name: str, markers: Any, owner: str) -> FakeClient:
            return FakeClient(self.broker, name, owner, self.faults.call)

        monkeypatch.setattr(kafka_sink, "KafkaTransactionClient", open_client)
        if not keeps_clients:  # as in processes of their own
            monkeypatch.setattr(kafka_sink, "kept_transactions", lambda key, make: KafkaTransactions(make))

    def sink(self) -> Sink:
        return exact_sink()

    def rows(self) -> list[tuple[int, int]]:
        found = [json.loads(record.value or b"") for record in self.broker.visible]
        return [(row["id"], row["value"]) for row in found]

    def leftovers(self) -> Sequence[object]:
        return list(self.broker.open.values())

    def clear(self) -> None:
        self.broker.visible.clear()


@pytest.mark.parametrize("keeps_clients", [True, False], ids=["kept", "anew"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_q5_conformance(
    check: Callable[[SinkSystem], None], keeps_clients: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(Broker(monkeypatch, keeps_clients=keeps_clients))


# ---- transactions


def output(epoch: int, row: int, attempt: int = 1) -> StagedOutput:
    context = SinkContext("job", attempt, "out", SubtaskId(StageId("s1"), 0), RECORD_TYPE)
    writer = exact_sink().open(context)
    writer.begin_epoch()
    writer.write([(row, row)])
    found = [Committable("out", context.subtask, epoch, name, data) for name, data in writer.pre_commit()]
    return staged_outputs(found)[0]


def driver(broker: FakeBroker, step: Callable[[Callable[[], Any]], Any] = lambda action: action()) -> KafkaTransactions:
    return KafkaTransactions(lambda: FakeClient(broker, "tx", "job/out", step))


def test_a_client_is_kept_while_nothing_fails() -> None:
    broker = FakeBroker()
    one = driver(broker)
    for number in (1, 2, 3):
        one.publish(output(number, number))
    assert broker.epochs == {"tx": 1} and len(broker.visible) == 3


def test_i10_an_older_driver_is_fenced_and_finds_its_rows_published_later() -> None:
    broker = FakeBroker()
    old, new = driver(broker), driver(broker)
    old.publish(output(1, 1))
    new.publish(output(2, 2))  # from the checkpoint of the old one
    with pytest.raises(ConnectorRefusedError, match="FENCED"):
        old.publish(output(2, 2))
    old.publish(output(2, 2))  # reads the marker
    new_again = driver(broker)
    new_again.publish(output(3, 3, attempt=2))
    assert len(broker.visible) == 3 and broker.markers == {"job/out": (2 << 32) + 3}


def test_a_driver_that_is_dead_for_longer_than_the_transaction_lost_nothing() -> None:
    broker = FakeBroker()
    dead: list[Callable[[], Any]] = []

    def until_the_marker(action: Callable[[], Any]) -> Any:
        dead.append(action)
        if len(dead) == 5:  # the rows and the marker are sent, and not committed
            raise SystemExit
        return action()

    rows = output(1, 1)
    with pytest.raises(SystemExit):
        driver(broker, until_the_marker).publish(rows)
    broker.expire()
    assert broker.visible == []
    driver(broker).publish(rows)
    assert len(broker.visible) == 1


def test_a_transaction_that_expires_while_rows_are_sent_is_written_again() -> None:
    broker, rows = FakeBroker(), output(1, 1)

    def slow(action: Callable[[], Any]) -> Any:
        result = action()
        if broker.open and next(iter(broker.open.values())).records:
            broker.expire()
        return result

    with pytest.raises(ConnectorRefusedError, match="FENCED"):
        driver(broker, slow).publish(rows)
    driver(broker).publish(rows)
    assert len(broker.visible) == 1


def test_only_so_many_clients_are_kept() -> None:
    broker, closed = FakeBroker(), []

    class Noting(FakeClient):
        def close(self) -> None:
            closed.append(self._name)

    rows = output(1, 1)
    for number in range(transactions.MAX_OPEN + 1):
        name = f"tx-{number}"
        kept_transactions(name, partial(Noting, broker, name, name, lambda action: action())).publish(rows)
    assert closed == ["tx-0"]


# ---- records


class Topics:
    """Two topics."""

    def partitions(self, topic: str) -> list[int]:
        if topic not in ("out", "other"):
            raise ConnectorRefusedError(f"there is no topic {topic!r}")
        return [0, 1, 2]


def encode(records: Sequence[Any], max_bytes: int = 1_000_000, **options: Any) -> list[KafkaRecord]:
    """Through the columns, as the commit gets them."""
    return list(decode(KafkaRecordEncoder(schema_of(**options), Topics(), max_bytes).encode(records)))


def test_a_record_has_topic_key_value_headers_timestamp_and_partition() -> None:
    found = encode(
        [(7, 1), (8, 2)],
        key=SimpleKey(),
        headers=lambda row: {"id": str(row[0]), "none": None} if row[0] == 7 else None,
        timestamp=lambda row: 1000 + row[1],
        partitioner=lambda row, key, value, topic, partitions: partitions[row[1]],
    )
    assert found == [
        KafkaRecord("out", 1, b"7", b'{"id":7,"value":1}', [("id", b"7"), ("none", None)], 1001),
        KafkaRecord("out", 2, b"8", b'{"id":8,"value":2}', None, 1002),
    ]


class SimpleKey(SimpleStringSchema):
    def serialize(self, element: Any) -> bytes:
        return str(element[0]).encode()


def test_without_providers_the_client_chooses() -> None:
    assert encode([(7, 1)]) == [KafkaRecord("out", None, None, b'{"id":7,"value":1}', None, None)]
    assert encode([]) == []


def test_a_selector_chooses_the_topic_and_one_that_is_missing_is_refused_with_the_record() -> None:
    class ByValue(KafkaTopicSelector):
        def apply(self, data: Any) -> str:
            return ("out", "other", "missing")[data[1]]

    schema = (
        KafkaRecordSerializationSchema.builder().set_topic_selector(ByValue()).set_value_serialization_schema(JSON)
    ).build()
    made = KafkaRecordEncoder(schema, Topics(), 1_000_000)
    assert [record.topic for record in made.records([(1, 0), (2, 1)])] == ["out", "other"]
    with pytest.raises(ConnectorRefusedError, match="no topic 'missing'"):
        made.encode([(3, 2)])
    with pytest.raises(UsageError, match="the topic selector returned None for \\(1, 1\\)"):
        encode([(1, 1)], topic=None, selector=lambda row: None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partitioner": lambda *_: 3}, "the partitioner returned 3 for .* partitions 0 to 2"),
        ({"timestamp": lambda _: "now"}, "the timestamp provider returned 'now'"),
        ({"timestamp": lambda _: -1}, "the timestamp provider returned -1"),
        ({"headers": lambda _: {"n": 3}}, "a header is \\('n', 3\\)"),
    ],
)
def test_what_a_function_of_the_user_must_return(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        encode([(1, 1)], **options)


def test_a_record_that_is_too_large_is_named_before_it_is_part_of_a_checkpoint() -> None:
    with pytest.raises(UnsupportedValueError, match="record with the key b'7' .* for topic 'out' is larger than 100"):
        encode([(7, 1)], max_bytes=100, key=SimpleKey())


def test_headers_may_be_pairs() -> None:
    assert header_list([("a", "1"), ("a", b"2")]) == [("a", b"1"), ("a", b"2")]
    assert header_list({}) is None


# ---- without transactions


class Sender:
    """Notes what it is asked to do."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def send(self, records: Any) -> None:
        self.calls += [record.value for record in records]

    def flush(self) -> None:
        self.calls.append("flush")

    def close(self, wait_s: float) -> None:
        self.calls.append(f"close {wait_s:g}")


@pytest.mark.parametrize(("waits", "expected"), [(True, ["flush", "close 0"]), (False, ["close 5"])])
def test_at_least_once_waits_for_the_broker_before_the_checkpoint(waits: bool, expected: list[str]) -> None:
    sender = Sender()
    writer = ProducingWriter(KafkaRecordEncoder(schema_of(), Topics(), 1_000), sender, waits=waits)
    writer.begin_epoch()
    writer.write([(1, 1)])
    writer.roll_back()
    assert sender.calls == [b'{"id":1,"value":1}']
    assert writer.pre_commit() == []
    writer.close()
    assert sender.calls[1:] == expected


# ---- settings


def test_the_default_is_that_of_flink() -> None:
    sink = builder().build()
    assert sink.guarantee is DeliveryGuarantee.NONE and sink.allows_fallback and not sink.delivery.is_exact
    assert exact_sink().delivery.is_exact and not exact_sink().allows_fallback
    assert pickle.loads(pickle.dumps(exact_sink())).servers == "broker:9092"


def test_a_producer_is_always_idempotent_and_places_keys_as_javas() -> None:
    sink = builder().set_property("linger.ms", "50").set_properties({"max.request.size": "2000"}).build()
    settings = sink._settings()
    made = settings.for_producer(transactional_id="tx")
    assert made["enable.idempotence"] is True and made["partitioner"] == "murmur2_random"
    assert (made["linger.ms"], made["message.max.bytes"]) == ("50", "2000")
    assert made["transactional.id"] == "tx" and made["transaction.timeout.ms"] == 900_000
    short = builder().set_property("transaction.timeout.ms", "2000").build()._settings()
    assert short.for_producer(transactional_id="tx")["message.timeout.ms"] == 2_000
    assert "transaction.timeout.ms" not in ProducerSettings("b", (("bootstrap.servers", "b"),)).for_producer()


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: KafkaSink.builder().build(), UsageError, "needs a broker"),
        (lambda: KafkaSink.builder().set_bootstrap_servers("b").build(), UsageError, "set_record_serializer"),
        (lambda: KafkaSink.builder().set_bootstrap_servers(""), UsageError, "host:port"),
        (lambda: builder().set_delivery_guarantee("EXACTLY_ONCE"), ArgumentError, "DeliveryGuarantee.EXACTLY_ONCE"),
        (lambda: builder().set_record_serializer(KafkaRecordSerializationSchema.builder()), ArgumentError, "build()"),
        (lambda: builder().set_property("transactional.id", "x"), UsageError, "sets 'transactional.id' itself"),
        (lambda: builder().set_transactional_id_prefix(""), UsageError, "prefix"),
        (lambda: builder().set_marker_topic(""), UsageError, "marker topic"),
        (lambda: builder().set_property("ssl.truststore.location", "x").build(), ConfigurationError, "PEM"),
        (lambda: schema_builder().build(), UsageError, "need a value"),
        (
            lambda: schema_builder().set_value_serialization_schema(JSON).build(),
            UsageError,
            "either set_topic",
        ),
        (lambda: schema_builder().set_topic(""), UsageError, "not the name of a topic"),
        (lambda: schema_builder().set_partitioner(3), ArgumentError, "function of record, key"),
        (
            lambda: schema_builder().set_key_serialization_schema(str),
            ArgumentError,
            "takes a SerializationSchema",
        ),
    ],
)
def test_what_is_wrong_is_said_when_the_sink_is_built(
    build: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        build()


def test_rows_are_serialized_by_the_schemas_of_pyflink() -> None:
    row_type = Types.ROW_NAMED(["name", "total"], [Types.STRING(), Types.LONG()])
    rows = JsonRowSerializationSchema.builder().with_type_info(row_type).build()
    assert [record.value for record in encode([Row("ada", 2)], value=rows)] == [b'{"name":"ada","total":2}']
    assert [record.value for record in encode(["text"], value=SimpleStringSchema())] == [b"text"]
