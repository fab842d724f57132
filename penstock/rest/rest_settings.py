"""Where a job's control server listens, and what it needs before it may listen to other machines."""

import ipaddress
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from penstock.control.server_contract import LOCAL_NAMES
from penstock.errors import ConfigurationError
from penstock.model.configuration import Configuration
from penstock.model.options import rest_options as options

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class RestSettings:
    """The server listens on the first free port of `ports`; 0 means any port."""

    enabled: bool = True
    host: str = LOOPBACK
    ports: range = range(1)
    names: tuple[str, ...] = ()
    """Host names under which clients call the server, besides the loopback names."""
    certificate: str = ""
    key: str = ""
    insecure: bool = False

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.key):
            raise ConfigurationError(
                f"{options.CERTIFICATE.key} and {options.CERTIFICATE_KEY.key} belong together: set both or neither"
            )
        if self.enabled and not is_loopback(self.host) and not self.certificate and not self.insecure:
            raise ConfigurationError(
                f"{options.BIND_ADDRESS.key} is {self.host!r}, which other machines can reach: set "
                f"{options.CERTIFICATE.key} and {options.CERTIFICATE_KEY.key}, or {options.INSECURE_BIND.key}=true, "
                f"which sends the token over the network unencrypted"
            )

    @staticmethod
    def of(configuration: Configuration) -> "RestSettings":
        """The settings in a configuration."""
        port = configuration.get(options.PORT)
        host = configuration.get(options.BIND_ADDRESS) or LOOPBACK
        name = configuration.get(options.ADDRESS)
        return RestSettings(
            enabled=configuration.get(options.ENABLED),
            host=host,
            ports=configuration.get(options.BIND_PORT) or range(port, port + 1),
            names=tuple(text.lower() for text in (host, name) if text),
            certificate=configuration.get(options.CERTIFICATE) or "",
            key=configuration.get(options.CERTIFICATE_KEY) or "",
            insecure=configuration.get(options.INSECURE_BIND),
        )

    @property
    def scheme(self) -> str:
        """http or https."""
        return "https" if self.certificate else "http"

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """The names that a request may give as its Host. Any other name may be an attack by DNS rebinding."""
        return frozenset((*LOCAL_NAMES, *(f"[{name}]" if ":" in name else name for name in self.names)))

    def tls(self) -> ssl.SSLContext | None:
        """The TLS context; None without a certificate."""
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
    """Return whether only this machine can reach an address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
