"""HDFS with one NameNode and one DataNode, from Hadoop's own jars. They come from Maven, about 104 MB."""

import json
import signal
import subprocess
import urllib.request
from pathlib import Path

from penstock.errors import ServiceError
from penstock.services.maven import fetch_jars
from penstock.services.service import Launch, ServiceProgram, cache_folder, find_program, free_ports

VERSION = "3.4.1"
ARTIFACTS = (
    f"org.apache.hadoop:hadoop-minicluster:{VERSION}",
    "com.fasterxml.jackson.core:jackson-core:2.12.7",  # Maven chooses 2.10.2, which the NameNode does not start with
)
GET_JAVA = "install Java 17 (Debian: apt install openjdk-17-jre-headless)"
NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
COMMAND_TIMEOUT_S = 120
STATE = "Hadoop:service=NameNode,name=FSNamesystemState"
WEB_PROPERTY = "-Dpenstock.namenode.web="
SETTINGS = {
    "core-site.xml": {
        "fs.defaultFS": "hdfs://127.0.0.1:{port}",
        "hadoop.tmp.dir": "{folder}/tmp",
        "ipc.client.connect.retry.interval": "200",
    },
    "hdfs-site.xml": {
        "dfs.replication": "1",
        "dfs.namenode.name.dir": "file://{folder}/name",
        "dfs.datanode.data.dir": "file://{folder}/data",
        "dfs.namenode.http-address": "127.0.0.1:{web_port}",
        "dfs.datanode.address": "127.0.0.1:0",
        "dfs.datanode.ipc.address": "127.0.0.1:0",
        "dfs.datanode.http.address": "127.0.0.1:0",
        "dfs.datanode.hostname": "127.0.0.1",
        "dfs.namenode.safemode.extension": "0",
        "dfs.namenode.safemode.min.datanodes": "1",
        "dfs.heartbeat.interval": "1s",
    },
}
LOGGING = """\
log4j.rootLogger=WARN,stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""


class HdfsService:
    """Address: `hdfs://127.0.0.1:port`. The user who starts it is the superuser."""

    stop_signal = signal.SIGTERM
    user: str | None = None

    def fetch(self, cache: Path) -> None:
        """Get Hadoop's jars."""
        fetch_jars(ARTIFACTS, _jars(cache))

    def prepare(self, folder: Path, cache: Path) -> Launch:
        """Write the settings and format the NameNode's folder."""
        port, web_port = free_ports(2)
        settings = folder / "conf"
        settings.mkdir()
        for name, properties in SETTINGS.items():
            values = {key: text.format(port=port, web_port=web_port, folder=folder) for key, text in properties.items()}
            (settings / name).write_text(_xml(values), encoding="utf-8")
        (settings / "log4j.properties").write_text(LOGGING, encoding="utf-8")
        command = (*_java(f"{settings}:{_jars(cache)}/*"), f"{WEB_PROPERTY}127.0.0.1:{web_port}")
        _run((*command, NAMENODE, "-format", "-nonInteractive"), "format its folder")
        programs = tuple(ServiceProgram((*command, program)) for program in (NAMENODE, DATANODE))
        return Launch(f"hdfs://127.0.0.1:{port}", programs)

    def is_ready(self, launch: Launch) -> bool:
        """Return whether the NameNode has left safe mode and knows its DataNode."""
        options = launch.programs[0].arguments
        place = next(option.removeprefix(WEB_PROPERTY) for option in options if option.startswith(WEB_PROPERTY))
        try:
            with urllib.request.urlopen(f"http://{place}/jmx?qry={STATE}", timeout=5) as reply:
                (state,) = json.load(reply)["beans"]
        except (OSError, ValueError):
            return False
        return bool(state["FSState"] == "Operational" and state["NumLiveDataNodes"] > 0)


def administrate(address: str, *command: str) -> str:
    """Run `hdfs dfsadmin` with a command such as `-safemode enter` on the HDFS at an address; return what it prints."""
    java = _java(f"{_jars(cache_folder())}/*")
    return _run((*java, "org.apache.hadoop.hdfs.tools.DFSAdmin", "-fs", address, *command), " ".join(command))


def _java(class_path: str) -> tuple[str, ...]:
    java = find_program("java", GET_JAVA)
    return (java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", class_path)


def _run(command: tuple[str, ...], verb: str) -> str:
    run = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    if run.returncode:
        raise ServiceError(f"HDFS could not {verb}:\n{(run.stdout + run.stderr).strip()[-2000:]}")
    return run.stdout


def _xml(values: dict[str, str]) -> str:
    lines = (f"  <property><name>{name}</name><value>{value}</value></property>" for name, value in values.items())
    return "\n".join(("<configuration>", *lines, "</configuration>", ""))


def _jars(cache: Path) -> Path:
    return cache / f"hadoop-{VERSION}"


SERVICE = HdfsService()
