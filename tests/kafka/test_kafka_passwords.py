"""A broker that asks for a password: a wrong one is refused at the start, with the reason, and nothing is changed."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.common import SimpleStringSchema, Types
from penstock.connectors.kafka.kafka_topics import check_source
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from penstock.errors import ConnectorRefusedError
from penstock.services import RunningService, start_service
from penstock.services.service import free_ports
from penstock.services.service_handle import read_state
from tests.kafka.topics import new_topic

pytestmark = pytest.mark.e2e
LOGIN = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture
def login(tmp_path: Path) -> Iterator[tuple[RunningService, str]]:
    """A broker with a second address, at which the user ada has the password `right`."""
    broker = start_service("kafka", tmp_path / "broker", os.getpid())
    state = read_state(broker.folder)
    assert state is not None
    [java] = psutil.Process(state.supervisor_pid).children()
    settings = Path(java.cmdline()[-1])
    [port] = free_ports(1)
    address = f"127.0.0.1:{port}"
    lines = [_with_login(line, address) for line in settings.read_text(encoding="utf-8").splitlines()]
    broker.kill()
    settings.write_text(
        "\n".join([*lines, "sasl.enabled.mechanisms=PLAIN", f'{LOGIN}={MODULE} required user_ada="right";', ""]),
        encoding="utf-8",
    )
    broker.resume()
    yield broker, address
    broker.stop()


def _with_login(line: str, address: str) -> str:
    if line.startswith(("listeners=", "advertised.listeners=")):
        return f"{line},SASL_PLAINTEXT://{address}"
    if line.startswith("listener.security.protocol.map="):
        return f"{line},SASL_PLAINTEXT:SASL_PLAINTEXT"
    return line


def account(password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ada",
        "sasl.password": password,
    }


def sink(address: str, topic: str, password: str) -> Any:
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic)
    schema.set_value_serialization_schema(SimpleStringSchema())
    builder = KafkaSink.builder().set_bootstrap_servers(address).set_record_serializer(schema.build())
    return builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_properties(account(password)).build()


def source(address: str, topic: str, password: str) -> KafkaSource:
    builder = KafkaSource.builder().set_bootstrap_servers(address).set_topics(topic)
    for name, value in account(password).items():
        builder.set_property(name, value)
    return builder.set_value_only_deserializer(SimpleStringSchema()).build()


def test_a_wrong_password_is_refused_by_the_source_and_the_sink(login: tuple[RunningService, str]) -> None:
    broker, address = login
    topic = new_topic(broker.address, "guarded")
    sink(address, topic, "right").check(Types.STRING())
    check_source(source(address, topic, "right"), first=True)
    with pytest.raises(ConnectorRefusedError, match=r"(?i)authentication") as of_sink:
        sink(address, topic, "sesame").check(Types.STRING())
    with pytest.raises(ConnectorRefusedError, match=r"(?i)authentication") as of_source:
        check_source(source(address, topic, "sesame"), first=True)
    assert "sesame" not in str(of_sink.value) + str(of_source.value)
