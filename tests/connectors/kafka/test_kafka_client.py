"""Settings of clients, and the library's errors as ours; against nobody and against librdkafka's own mock broker."""

import pytest

from penstock.connectors.kafka.client import call, client_settings, open_consumer, open_producer, translated
from penstock.errors import ConfigurationError, ConnectorRefusedError, ConnectorUnavailableError, RecordsLostError


def test_settings_of_the_java_client_are_translated_or_left_out() -> None:
    properties = {
        "sasl.jaas.config": 'org.apache.PlainLoginModule required username="a" password="b";',
        "sasl.mechanism": "PLAIN",
        "max.poll.records": "5",
        "max.request.size": "1000",
    }
    assert client_settings("b:1", properties) == {
        "bootstrap.servers": "b:1",
        "sasl.username": "a",
        "sasl.password": "b",
        "sasl.mechanism": "PLAIN",
        "message.max.bytes": "1000",
    }


def test_a_java_key_store_is_refused_with_the_way_out() -> None:
    with pytest.raises(ConfigurationError, match="ssl.ca.location"):
        client_settings("b:1", {"ssl.truststore.location": "/x.jks"})


def test_an_unknown_setting_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match='No such configuration property: "no.such.thing"'):
        open_consumer(client_settings("b:1", {"no.such.thing": "1"}))


def test_a_broker_that_does_not_answer_is_unavailable() -> None:
    consumer = open_consumer(client_settings("127.0.0.1:1", {}))
    try:
        with pytest.raises(ConnectorUnavailableError, match="topics: Kafka answers _TRANSPORT"):
            call("topics", lambda: consumer.list_topics(timeout=0.2))
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (3, ConnectorRefusedError),  # UNKNOWN_TOPIC_OR_PART
        (1, RecordsLostError),  # OFFSET_OUT_OF_RANGE
        (6, ConnectorUnavailableError),  # NOT_LEADER_FOR_PARTITION
        (74, ConnectorUnavailableError),  # FENCED_LEADER_EPOCH
        (75, ConnectorUnavailableError),  # UNKNOWN_LEADER_EPOCH
        (58, ConnectorRefusedError),  # SASL_AUTHENTICATION_FAILED
    ],
)
def test_errors_say_whether_waiting_helps(code: int, expected: type[Exception]) -> None:
    from confluent_kafka import KafkaError

    assert type(translated(KafkaError(code), "read")) is expected


def test_a_producer_of_a_mock_broker_delivers() -> None:
    producer = open_producer({"bootstrap.servers": "x", "test.mock.num.brokers": 1})
    producer.produce("t", b"v")
    assert call("flush", lambda: producer.flush(30)) == 0
