"""Options of a job's control server (REST), and of the folder in which running jobs are listed."""

from penstock.model.option import Option
from penstock.model.option_types import Boolean, Integer, Milliseconds, OptionalText, Ports

ENABLED = Option("penstock.rest.enabled", Boolean(), True, "Whether a job has a control server.")
PORT = Option("rest.port", Integer(0, 65535), 0, "The port of the control server. 0: any free port.")
BIND_PORT: Option[range | None] = Option(
    "rest.bind-port",
    Ports(),
    None,
    "The same as `rest.port`, or a range of ports of which the first free one is taken. It wins over `rest.port`.",
)
BIND_ADDRESS: Option[str | None] = Option(
    "rest.bind-address",
    OptionalText(),
    None,
    "The address on which the control server listens. An address that other machines can reach needs a certificate.",
    default_text="`127.0.0.1`",
)
ADDRESS: Option[str | None] = Option(
    "rest.address", OptionalText(), None, "The host name under which clients call the control server."
)
CERTIFICATE: Option[str | None] = Option(
    "penstock.rest.ssl.certificate", OptionalText(), None, "The certificate of the control server, a PEM file."
)
CERTIFICATE_KEY: Option[str | None] = Option(
    "penstock.rest.ssl.key",
    OptionalText(),
    None,
    "The private key of the certificate: a PEM file that only its owner can read.",
)
INSECURE_BIND = Option(
    "penstock.rest.insecure-bind",
    Boolean(),
    False,
    "Whether the control server may listen without a certificate on an address that other machines can reach. Its "
    "token can then be read on the network.",
)
OTEL_ENDPOINT: Option[str | None] = Option(
    "penstock.otel.endpoint",
    OptionalText(),
    None,
    "The address of an OpenTelemetry collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`: metrics and "
    "checkpoints are sent there. It needs `penstock[otel]`.",
)
OTEL_INTERVAL = Option(
    "penstock.otel.interval",
    Milliseconds(least=1000),
    10_000,
    "How often metrics are sent to `penstock.otel.endpoint`.",
)
REGISTRY_DIRECTORY: Option[str | None] = Option(
    "penstock.registry.dir",
    OptionalText(),
    None,
    "The folder in which jobs are registered and their logs are written.",
    default_text="`penstock/registry` in `$XDG_STATE_HOME`, or else in `~/.local/state`",
)
