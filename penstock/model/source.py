"""`Source`: what the sources of connectors are, for `isinstance`; `env.from_source` takes them."""

from abc import ABC


class Source(ABC):  # noqa: B024  (plain data; Spark or a TaskManager reads it)
    """A source of records for `env.from_source`."""
