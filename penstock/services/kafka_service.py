"""A Kafka broker of one node, which is its own controller. Its jars come from Maven, about 43 MB."""

import signal
import subprocess
from pathlib import Path

from penstock.errors import ServiceError
from penstock.services.maven import fetch_jars
from penstock.services.service import Launch, ServiceProgram, accepts_connections, find_program, free_ports

VERSION = "4.1.0"
ARTIFACT = f"org.apache.kafka:kafka_2.13:{VERSION}"
GET_JAVA = "install Java 17 or newer (Debian: apt install openjdk-17-jre-headless)"
CLUSTER_ID = "cGVuc3RvY2stZGV2LTAwMQ"
"""Any 16 bytes in base64."""
FORMAT_TIMEOUT_S = 120
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/log
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=1000
broker.heartbeat.interval.ms=200
auto.create.topics.enable=false
"""


class KafkaService:
    """Address: `127.0.0.1:port`, for `bootstrap.servers`. A topic is not created by using its name."""

    stop_signal = signal.SIGTERM
    user: str | None = None

    def fetch(self, cache: Path) -> None:
        """Get Kafka's jars."""
        fetch_jars([ARTIFACT], _jars(cache))

    def prepare(self, folder: Path, cache: Path) -> Launch:
        """Write the settings and format the folder of the log."""
        java = find_program("java", GET_JAVA)
        port, controller_port = free_ports(2)
        settings = folder / "server.properties"
        text = PROPERTIES.format(port=port, controller_port=controller_port, folder=folder)
        settings.write_text(text, encoding="utf-8")
        options = (java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        command = (*options, f"-Dkafka.logs.dir={folder}", "-cp", f"{_jars(cache)}/*")
        run = subprocess.run(
            [*command, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(settings)],
            capture_output=True,
            text=True,
            timeout=FORMAT_TIMEOUT_S,
            check=False,
        )
        if run.returncode:
            raise ServiceError(f"Kafka could not format {folder}:\n{(run.stdout + run.stderr).strip()}")
        return Launch(f"127.0.0.1:{port}", (ServiceProgram((*command, "kafka.Kafka", str(settings))),))

    def is_ready(self, launch: Launch) -> bool:
        """Return whether the broker's port is open; the broker opens it last."""
        return accepts_connections(launch.address)


def _jars(cache: Path) -> Path:
    return cache / f"kafka-{VERSION}"


SERVICE = KafkaService()
