"""The settings of the export by OpenTelemetry. Apart from it, so that reading them imports no package of it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class OtelSettings:
    """Where metrics and traces go, and how often."""

    endpoint: str
    interval_ms: int
