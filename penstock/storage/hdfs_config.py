"""Where the NameNode of an `hdfs://` address is, from Hadoop's configuration files.

The place in an address is a host, with or without a port, or a nameservice: a name that `hdfs-site.xml` gives to
several NameNodes, of which one is active. The files are in `HADOOP_CONF_DIR`, or in `$HADOOP_HOME/etc/hadoop`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from penstock.errors import ConfigurationError

DEFAULT_PORT = 8020
ACTIVE_ONLY = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
_FILES = ("core-site.xml", "hdfs-site.xml")


@dataclass(frozen=True)
class NameNodes:
    """What a client connects to."""

    url: str
    """With a port: one NameNode. Without: a nameservice."""
    names: tuple[str, ...]
    """The NameNodes' ids in the nameservice; empty for a single one."""
    hosts: tuple[str, ...]
    """`host:port` of each, for messages."""

    def settings(self, first: int) -> dict[str, str]:
        """Hadoop settings that name the nameservice's NameNodes, beginning with the one at index `first`.

        Reads go to the active NameNode: an observer may not know yet what another client has written (PROTOCOL R4).
        """
        place = self.url.removeprefix("hdfs://")
        active = {f"dfs.client.failover.proxy.provider.{place.partition(':')[0]}": ACTIVE_ONLY}
        if not self.names:
            return active
        turned = [*self.names[first % len(self.names) :], *self.names[: first % len(self.names)]]
        addresses = {
            f"dfs.namenode.rpc-address.{place}.{name}": host for name, host in zip(self.names, self.hosts, strict=True)
        }
        return {f"dfs.ha.namenodes.{place}": ",".join(turned), **addresses, **active}


def find_namenodes(place: str, environment: Mapping[str, str] = os.environ) -> NameNodes:
    """The NameNodes of an address. Raises ConfigurationError for a nameservice without addresses.

    >>> find_namenodes("namenode:9000", {}).url, find_namenodes("namenode", {}).url
    ('hdfs://namenode:9000', 'hdfs://namenode:8020')
    """
    if ":" in place:
        return NameNodes(f"hdfs://{place}", (), (place,))
    settings = _read_settings(environment)
    names = _listed(settings.get(f"dfs.ha.namenodes.{place}", ""))
    if not names:
        host = f"{place}:{DEFAULT_PORT}"
        if place in _listed(settings.get("dfs.nameservices", "")):
            host = settings.get(f"dfs.namenode.rpc-address.{place}", host)
        return NameNodes(f"hdfs://{host}", (), (host,))
    hosts = [settings.get(f"dfs.namenode.rpc-address.{place}.{name}", "") for name in names]
    if not all(hosts):
        missing = names[hosts.index("")]
        raise ConfigurationError(
            f"the nameservice {place!r} has a NameNode {missing!r} without an address; set "
            f"dfs.namenode.rpc-address.{place}.{missing} in hdfs-site.xml in HADOOP_CONF_DIR"
        )
    return NameNodes(f"hdfs://{place}", tuple(names), tuple(hosts))


def _read_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The properties of Hadoop's configuration files; the later file wins."""
    folder = environment.get("HADOOP_CONF_DIR")
    if not folder and (home := environment.get("HADOOP_HOME")):
        folder = f"{home}/etc/hadoop"
    settings: dict[str, str] = {}
    for path in (Path(folder) / name for name in _FILES) if folder else ():
        if not path.is_file():
            continue
        try:
            properties = ElementTree.parse(path).getroot().iter("property")
        except (ElementTree.ParseError, OSError) as error:
            raise ConfigurationError(
                f"cannot read {str(path)!r}: {error}; correct it or set HADOOP_CONF_DIR"
            ) from error
        for entry in properties:
            settings[(entry.findtext("name") or "").strip()] = (entry.findtext("value") or "").strip()
    return settings


def _listed(text: str) -> list[str]:
    return [part for part in (piece.strip() for piece in text.split(",")) if part]
