"""The Kafka sink on a real broker: conformance, records, refusals, and the program of docs/connectors/kafka.md."""

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.common import ByteArraySchema, SimpleStringSchema, Types
from penstock.connectors.kafka import kafka_sink, transactions
from penstock.connectors.kafka.kafka_records import KafkaRecord
from penstock.connectors.kafka.kafka_sink import KafkaSink
from penstock.connectors.kafka.marker_topic import MarkerTopic
from penstock.connectors.kafka.producers import KafkaTransactionClient
from penstock.connectors.kafka.record_schema import KafkaRecordSerializationSchema
from penstock.connectors.kafka.transactions import NO_MARKER, KafkaTransactions
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.formats import JsonRowSerializationSchema
from penstock.errors import ConnectorRefusedError, ConnectorUnavailableError
from penstock.model.ids import StageId, SubtaskId, new_job_id
from penstock.model.sink import Sink, SinkContext
from penstock.model.snapshot import Committable
from penstock.services import RunningService
from penstock.testing.conformance_sink import CHECKS, RECORD_TYPE, SinkSystem
from tests.docs.pages import DOCS, blocks_of
from tests.kafka.topics import new_topic, read_committed
from tests.waiting import wait_until

pytestmark = pytest.mark.e2e
JSON = JsonRowSerializationSchema.builder().with_type_info(RECORD_TYPE).build()


@pytest.fixture(autouse=True)
def no_kept_clients() -> Iterator[None]:
    yield
    for found in transactions._open.values():
        found.close()
    transactions._open.clear()


def builder(servers: str, topic: str, value: Any = JSON, **options: Any) -> Any:
    schema = KafkaRecordSerializationSchema(topic, None, None, value, **options)
    made = KafkaSink.builder().set_bootstrap_servers(servers).set_record_serializer(schema)
    return made.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)


def committables(sink: Sink, records: Sequence[Any], epoch: int = 1, job_id: str = "job") -> list[Committable]:
    context = SinkContext(job_id, 1, "out", SubtaskId(StageId("s1"), 0), RECORD_TYPE)
    writer = sink.open(context)
    writer.begin_epoch()
    writer.write(records)
    found = [Committable("out", context.subtask, epoch, name, data) for name, data in writer.pre_commit()]
    writer.close()
    return found


# ---- the conformance suite


class Broker(SinkSystem):
    """A topic with one partition, so that a reader has an order."""

    def __init__(self, servers: str) -> None:
        super().__init__()
        self.servers = servers
        self.run = new_job_id()  # the markers of one check are not those of another
        self.topic = new_topic(servers, "conformance", partitions=1)

    def sink(self) -> Sink:
        sink: Sink = builder(self.servers, self.topic).set_marker_topic(f"markers-{self.run}").build()
        return sink

    def rows(self) -> list[tuple[int, int]]:
        found = [json.loads(message.value()) for message in read_committed(self.servers, self.topic)]
        return [(row["id"], row["value"]) for row in found]

    def leftovers(self) -> Sequence[object]:
        return []  # the broker aborts them; what counts is that `rows` sees nothing of them


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_q5_conformance(
    check: Callable[[SinkSystem], None], kafka: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "driver" in check.__name__:  # several, each with a producer of its own
        monkeypatch.setattr(kafka_sink, "kept_transactions", lambda key, make: KafkaTransactions(make))
    check(Broker(kafka.address))


# ---- records


def test_a_reader_gets_topic_key_value_headers_timestamp_and_partition(kafka: RunningService) -> None:
    topic = new_topic(kafka.address, "records")
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(lambda record: topic)
        .set_key_serialization_schema(SimpleStringSchema())
        .set_value_serialization_schema(SimpleStringSchema())
        .set_header_provider(lambda record: {"first": record[:1]})
        .set_timestamp_provider(lambda record: 1_700_000_000_000)
        .set_partitioner(lambda record, key, value, name, partitions: partitions[-1])
        .build()
    )
    made = KafkaSink.builder().set_bootstrap_servers(kafka.address).set_record_serializer(schema)
    sink = made.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()
    sink.check(Types.STRING())
    sink.commit_all(committables(sink, ["ada"], job_id=new_job_id()))
    [found] = read_committed(kafka.address, topic)
    assert (found.topic(), found.partition(), found.key(), found.value()) == (topic, 3, b"ada", b"ada")
    assert found.headers() == [("first", b"a")] and found.timestamp()[1] == 1_700_000_000_000


def test_records_of_one_key_are_in_one_partition_in_their_order(kafka: RunningService) -> None:
    topic = new_topic(kafka.address, "order")
    schema = KafkaRecordSerializationSchema(topic, None, FirstCharacter(), SimpleStringSchema())
    made = KafkaSink.builder().set_bootstrap_servers(kafka.address).set_record_serializer(schema)
    sink = made.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()
    job_id = new_job_id()
    for epoch in (1, 2):
        rows = [f"{key}{epoch}{number:03}" for number in range(100) for key in "abcdefgh"]
        sink.commit_all(committables(sink, rows, epoch, job_id))
    places: dict[bytes, list[tuple[int, bytes]]] = {}
    for message in read_committed(kafka.address, topic):
        places.setdefault(message.key(), []).append((message.partition(), message.value()))
    assert len(places) == 8
    for found in places.values():
        assert len(found) == 200 and len({partition for partition, _ in found}) == 1
        assert [value for _, value in found] == sorted(value for _, value in found)


class FirstCharacter(SimpleStringSchema):
    def serialize(self, element: Any) -> bytes:
        return super().serialize(element[:1])


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.NONE])
def test_records_without_transactions_are_there_when_the_writer_has_ended(
    kafka: RunningService, guarantee: DeliveryGuarantee
) -> None:
    topic = new_topic(kafka.address, "plain")
    sink = builder(kafka.address, topic).set_delivery_guarantee(guarantee).build()
    assert committables(sink, [(n, n) for n in range(1000)]) == []
    assert len(read_committed(kafka.address, topic)) == 1000


# ---- a driver that died in the middle of its transaction


def die_before_the_commit(servers: str, topic: str, name: str, timeout_ms: str) -> None:
    """The rows and the marker are sent; then the process is gone."""
    sink = builder(servers, topic).set_property("transaction.timeout.ms", timeout_ms).build()
    settings = sink._settings()
    client = KafkaTransactionClient(settings, name, MarkerTopic(settings.for_reading()), name)
    client.start()
    assert client.read_marker() == NO_MARKER
    client.begin()
    client.send([KafkaRecord(topic, None, None, b'{"id":1,"value":1}', None, None)])
    client.store_marker(7)
    os._exit(0)


@pytest.mark.parametrize(
    ("timeout_ms", "waits"), [("900000", False), ("2000", True)], ids=["resumed at once", "dead for longer"]
)
def test_an_open_transaction_of_a_dead_driver_is_aborted(kafka: RunningService, timeout_ms: str, waits: bool) -> None:
    topic, name = new_topic(kafka.address, "dead", partitions=1), f"tx-{new_job_id()}"
    arguments = (kafka.address, topic, name, timeout_ms)
    process = multiprocessing.get_context("spawn").Process(target=die_before_the_commit, args=arguments)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    if waits:  # the broker has aborted it when other committed records can be read
        other = builder(kafka.address, topic).build()
        other.commit_all(committables(other, [(2, 2)], job_id=new_job_id()))
        wait_until(lambda: read_committed(kafka.address, topic))
    settings = builder(kafka.address, topic).build()._settings()
    client = KafkaTransactionClient(settings, name, MarkerTopic(settings.for_reading()), name)
    client.start()
    assert client.read_marker() == NO_MARKER
    client.begin()
    client.send([KafkaRecord(topic, None, None, b'{"id":3,"value":3}', None, None)])
    client.store_marker(8)
    client.commit()
    client.close()
    found = [json.loads(message.value())["id"] for message in read_committed(kafka.address, topic)]
    assert found == ([2, 3] if waits else [3])


def test_a_fenced_client_cannot_commit_and_the_library_writes_nothing_of_its_own(
    kafka: RunningService, capfd: pytest.CaptureFixture[str]
) -> None:
    topic, name = new_topic(kafka.address, "fenced", partitions=1), f"tx-{new_job_id()}"
    settings = builder(kafka.address, topic).build()._settings()
    first, second = (
        KafkaTransactionClient(settings, name, MarkerTopic(settings.for_reading()), name) for _ in range(2)
    )
    first.start()
    first.begin()
    first.send([KafkaRecord(topic, None, None, b"first", None, None)])
    second.start()
    with pytest.raises(ConnectorRefusedError, match="fenced"):
        first.commit()
    first.close()
    second.close()
    assert read_committed(kafka.address, topic) == []
    assert "fenced" not in capfd.readouterr().err


# ---- refusals


def test_a_start_without_a_broker_topic_or_rights_is_refused_and_changes_nothing(kafka: RunningService) -> None:
    topic = new_topic(kafka.address, "refused", max_message_bytes="5000")
    with pytest.raises(ConnectorRefusedError, match="no topic 'nowhere'.*create it"):
        builder(kafka.address, "nowhere").build().check(RECORD_TYPE)
    with pytest.raises(ConnectorRefusedError, match="takes records of up to 5,000 bytes"):
        builder(kafka.address, topic).build().check(RECORD_TYPE)
    sized = builder(kafka.address, topic).set_property("message.max.bytes", "5000")
    sized.build().check(RECORD_TYPE)
    with pytest.raises(ConnectorRefusedError, match=r"call set_property\('transaction.timeout.ms', '900000'\)"):
        sized.set_property("transaction.timeout.ms", "3600000").build().check(RECORD_TYPE)
    with pytest.raises(ConnectorRefusedError, match="cleanup policy 'delete'"):
        builder(kafka.address, topic).set_property("message.max.bytes", "5000").set_marker_topic(topic).build().check(
            RECORD_TYPE
        )
    with pytest.raises(ConnectorRefusedError, match="refuses the connection"):
        wrong = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        named = {"sasl.username": "ada", "sasl.password": "wrong"}
        builder(kafka.address, topic).set_properties({**wrong, **named}).build().check(RECORD_TYPE)
    assert read_committed(kafka.address, topic) == []


def test_no_broker_is_found_out_within_a_limit() -> None:
    with pytest.raises(ConnectorUnavailableError, match="no broker answers at 127.0.0.1:1 within 15 s"):
        builder("127.0.0.1:1", "any").build().check(RECORD_TYPE)


def test_a_record_that_only_the_broker_refuses_is_named_and_nothing_of_its_checkpoint_is_seen(
    kafka: RunningService,
) -> None:
    topic = new_topic(kafka.address, "large", max_message_bytes="5000")
    sink = builder(kafka.address, topic, ByteArraySchema()).build()
    with pytest.raises(
        ConnectorRefusedError, match=r"record without a key \(9,000 bytes\) was not stored in topic 'large"
    ):
        sink.commit_all(committables(sink, [b"small", b"x" * 9000], job_id=new_job_id()))
    assert read_committed(kafka.address, topic) == []


# ---- the page


def test_the_program_of_the_page_writes_its_words(kafka: RunningService, tmp_path: Path) -> None:
    [program] = [block for block in blocks_of(DOCS / "connectors" / "kafka.md") if block.file == "words_to_kafka.py"]
    (tmp_path / "words_to_kafka.py").write_text(program.text, encoding="utf-8")
    topic = new_topic(kafka.address, "words")
    run = subprocess.run(
        [sys.executable, "-m", "penstock", "run", "words_to_kafka.py", kafka.address, topic],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found = read_committed(kafka.address, topic)
    assert sorted(message.value() for message in found) == [b"BE", b"BE", b"NOT", b"OR", b"TO", b"TO"]
    assert found[0].headers() == [("length", str(len(found[0].value())).encode())]
