"""PyFlink's way to declare a configuration key of one's own."""

from dataclasses import dataclass
from typing import Any

from penstock.model.option import Option
from penstock.model.option_types import Boolean, Integer, Number, Text, ValueType

ConfigOption = Option
"""The name of `Option` in PyFlink. `Configuration.get` and `Configuration.set` take it."""


class ConfigOptions:
    """Declares keys.

    >>> from penstock.model.configuration import Configuration
    >>> limit = ConfigOptions.key("my.limit").int_type().default_value(100)
    >>> Configuration().get(limit), Configuration().set(limit, 5).get(limit)
    (100, 5)
    """

    @staticmethod
    def key(key: str) -> "ConfigOptions.OptionBuilder":
        """Starts the declaration of a key."""
        return ConfigOptions.OptionBuilder(key)

    @dataclass(frozen=True)
    class OptionBuilder:
        """A key whose type comes next."""

        key: str

        def boolean_type(self) -> "ConfigOptions.TypedConfigOptionBuilder":
            """True or false."""
            return ConfigOptions.TypedConfigOptionBuilder(self.key, Boolean())

        def int_type(self) -> "ConfigOptions.TypedConfigOptionBuilder":
            """Integers."""
            return ConfigOptions.TypedConfigOptionBuilder(self.key, Integer())

        def long_type(self) -> "ConfigOptions.TypedConfigOptionBuilder":
            """Integers."""
            return ConfigOptions.TypedConfigOptionBuilder(self.key, Integer())

        def float_type(self) -> "ConfigOptions.TypedConfigOptionBuilder":
            """Floating point numbers."""
            return ConfigOptions.TypedConfigOptionBuilder(self.key, Number())

        def double_type(self) -> "ConfigOptions.TypedConfigOptionBuilder":
            """Floating point numbers."""
            return ConfigOptions.TypedConfigOptionBuilder(self.key, Number())

        def string_type(self) -> "ConfigOptions.TypedConfigOptionBuilder":
            """Text."""
            return ConfigOptions.TypedConfigOptionBuilder(self.key, Text())

    @dataclass(frozen=True)
    class TypedConfigOptionBuilder:
        """A key with its type, whose default comes next."""

        key: str
        type: ValueType[Any]

        def default_value(self, value: Any) -> Option[Any]:
            """The option with this default."""
            return Option(self.key, self.type, value, "")

        def no_default_value(self) -> Option[Any]:
            """The option without a default: it is None unless it is set."""
            return Option(self.key, self.type, None, "")
