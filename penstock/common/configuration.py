"""The names of `pyflink.common.configuration`."""

from penstock.model.configuration import Configuration

__all__ = ["Configuration"]
