"""The names of `pyflink.common.config_options`."""

from penstock.model.config_options import ConfigOption, ConfigOptions

__all__ = ["ConfigOption", "ConfigOptions"]
