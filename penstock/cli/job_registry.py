"""The registry in which a command finds jobs."""

from penstock.control.effective_settings import load_settings
from penstock.control.registry import Registry, registry_of
from penstock.model.configuration import Configuration


def open_registry(settings: dict[str, str]) -> Registry:
    """The registry that `-D` or the configuration files name."""
    return registry_of(load_settings(Configuration(), settings).configuration)
