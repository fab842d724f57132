"""Where a job's control server listens, and what it asks for before it listens beyond this machine (security S1)."""

import ipaddress
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from penstock.control.remote_job import LOCAL_NAMES
from penstock.errors import ConfigurationError
from penstock.model.configuration import Configuration

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class RestSettings:
    """Plain data. The port is the first free one of `ports`; 0 stands for any."""

    enabled: bool = True
    host: str = LOOPBACK
    ports: range = range(1)
    names: tuple[str, ...] = ()
    """By which clients call the server besides the loopback names."""
    certificate: str = ""
    key: str = ""
    insecure: bool = False

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.key):
            raise ConfigurationError(
                "penstock.rest.ssl.certificate and penstock.rest.ssl.key belong together: give both or none"
            )
        if self.enabled and not is_loopback(self.host) and not self.certificate and not self.insecure:
            raise ConfigurationError(
                f"rest.bind-address is {self.host!r}, which other machines can reach: set "
                f"penstock.rest.ssl.certificate and penstock.rest.ssl.key, or penstock.rest.insecure-bind=true, "
                f"with which the token can be read on its way"
            )

    @staticmethod
    def of(configuration: Configuration) -> "RestSettings":
        """The settings in a configuration."""
        ports = configuration.get_string("rest.bind-port", "") or configuration.get_string("rest.port", "0")
        host = configuration.get_string("rest.bind-address", "") or LOOPBACK
        name = configuration.get_string("rest.address", "")
        return RestSettings(
            enabled=configuration.get_boolean("penstock.rest.enabled", default_value=True),
            host=host,
            ports=parse_ports(ports),
            names=tuple(text.lower() for text in (host, name) if text),
            certificate=configuration.get_string("penstock.rest.ssl.certificate", ""),
            key=configuration.get_string("penstock.rest.ssl.key", ""),
            insecure=configuration.get_boolean("penstock.rest.insecure-bind", default_value=False),
        )

    @property
    def scheme(self) -> str:
        """http or https."""
        return "https" if self.certificate else "http"

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """The names that a request may give as its Host; everything else is a name that leads here by a trick."""
        return frozenset((*LOCAL_NAMES, *(f"[{name}]" if ":" in name else name for name in self.names)))

    def tls(self) -> ssl.SSLContext | None:
        """What encrypts connections; None without a certificate."""
        if not self.certificate:
            return None
        key = Path(self.key)
        if key.exists() and os.stat(key).st_mode & 0o077:
            raise ConfigurationError(f"the key {self.key!r} can be read by other users; run `chmod 600` on it")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"cannot use the certificate {self.certificate!r} with the key {self.key!r}: {error}"
            ) from error
        return context


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def parse_ports(text: str) -> range:
    """A port, or a range of them.

    >>> parse_ports("8081"), parse_ports("50100-50200"), parse_ports("0")
    (range(8081, 8082), range(50100, 50201), range(0, 1))
    """
    first, dash, last = text.partition("-")
    try:
        ports = range(int(first), int(last if dash else first) + 1)
    except ValueError:
        ports = range(0)
    if not ports or ports.start < 0 or ports.stop > 65536:
        raise ConfigurationError(f"{text!r} is not a port or a range of ports such as 50100-50200")
    return ports
