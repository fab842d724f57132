"""`Configuration`: settings by key, as text, with PyFlink's typed getters and setters."""

import builtins
from collections.abc import Mapping
from typing import Any, TypeVar

from penstock.errors import ConfigurationError
from penstock.model.option import Option
from penstock.model.quantities import parse_boolean

T = TypeVar("T")


class Configuration:
    """A set of settings. Setters return the object itself; getters return the default for a key that is not set.

    >>> Configuration().set_integer("parallelism.default", 2).get_integer("parallelism.default", 1)
    2
    """

    def __init__(self, other: "Configuration | None" = None) -> None:
        self._settings: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        """The same settings as they were given: text, numbers, booleans, bytes."""
        if other is not None:
            self.add_all(other)

    @staticmethod
    def from_dict(map: Mapping[str, Any]) -> "Configuration":
        """The configuration with these settings."""
        configuration = Configuration()
        for key, value in map.items():
            configuration._set(key, value)
        return configuration

    def _set(self, key: str, value: Any) -> "Configuration":
        """Set a key to text, a number or a boolean."""
        if not isinstance(key, str) or not key:
            raise ConfigurationError(f"a configuration key is text, not {key!r}")
        if not isinstance(value, (str, int, float)):
            raise ConfigurationError(f"{key} cannot be {value!r}; give text, a number or a boolean")
        self._settings[key] = str(value).lower() if isinstance(value, bool) else str(value)
        self._values[key] = value
        return self

    def get(self, option: Option[T]) -> T:
        """The value of an option, set under its key or an old name of it, or else its default."""
        for key in (option.key, *option.old_keys):
            text = self._settings.get(key)
            if text is not None:
                try:
                    return option.type.parse(text)
                except ConfigurationError as error:
                    raise ConfigurationError(f"{key}: {error}") from None
        return option.default

    def set(self, option: Option[T], value: T) -> "Configuration":
        """Set an option to a value."""
        return self._set(option.key, option.type.format(value))

    def get_string(self, key: str, default_value: str) -> str:
        """The setting as text."""
        return self._settings.get(key, default_value)

    def set_string(self, key: str, value: str) -> "Configuration":
        """Set a key to text."""
        return self._set(key, value)

    def get_integer(self, key: str, default_value: int) -> int:
        """The setting as an integer."""
        text = self._settings.get(key)
        return default_value if text is None else _number(key, text, int)

    def set_integer(self, key: str, value: int) -> "Configuration":
        """Set a key to an integer."""
        return self._set(key, int(value))

    def get_float(self, key: str, default_value: float) -> float:
        """The setting as a floating point number."""
        text = self._settings.get(key)
        return default_value if text is None else _number(key, text, float)

    def set_float(self, key: str, value: float) -> "Configuration":
        """Set a key to a floating point number."""
        return self._set(key, float(value))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """The setting as a boolean."""
        text = self._settings.get(key)
        return default_value if text is None else _boolean(key, text)

    def set_boolean(self, key: str, value: bool) -> "Configuration":
        """Set a key to a boolean."""
        return self._set(key, bool(value))

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """The setting as bytes."""
        text = self._settings.get(key)
        return default_value if text is None else bytearray(text, "latin-1")

    def set_bytearray(self, key: str, value: bytearray) -> "Configuration":
        """Set a key to bytes."""
        self._set(key, bytes(value).decode("latin-1"))
        self._values[key] = value
        return self

    def key_set(self) -> builtins.set[str]:
        """The keys that are set."""
        return {*self._settings}

    def contains_key(self, key: str) -> bool:
        """Whether the key is set."""
        return key in self._settings

    def add_all(self, other: "Configuration", prefix: str | None = None) -> "Configuration":
        """Add all settings of another configuration, with `prefix` in front of their keys."""
        for key, value in other._settings.items():
            self._settings[(prefix or "") + key] = value
            self._values[(prefix or "") + key] = other._values[key]
        return self

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Put all settings into a dictionary, as they were given: numbers as numbers. `to_dict` has texts."""
        target_dict.update(self._values)

    def remove_config(self, key: str) -> bool:
        """Remove a key. Returns whether it was set."""
        self._values.pop(key, None)
        return self._settings.pop(key, None) is not None

    def to_dict(self) -> dict[str, str]:
        """All settings, in the order they were set."""
        return dict(self._settings)

    @staticmethod
    def parse_list_value(value: str | None, standard_yaml: bool = True) -> list[str]:
        """The parts of a list in a setting: "a;b", or in YAML "[a, b]" or one part a line after "- ".

        >>> Configuration.parse_list_value("[a, b]"), Configuration.parse_list_value("a;b", False)
        (['a', 'b'], ['a', 'b'])
        """
        if not value:
            return []
        text = value.strip()
        if standard_yaml and text.startswith("[") and text.endswith("]"):
            return [part.strip().strip("'\"") for part in text[1:-1].split(",") if part.strip()]
        if standard_yaml and text.startswith("- "):
            return [line.strip()[2:].strip().strip("'\"") for line in text.splitlines() if line.strip()]
        return text.split(";")

    def __contains__(self, key: object) -> bool:
        return key in self._settings

    def __deepcopy__(self, memo: dict[int, Any]) -> "Configuration":
        return Configuration(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._settings == other._settings

    def __hash__(self) -> int:
        """Of the current settings, as in PyFlink: it changes with them."""
        return hash(frozenset(self._settings.items()))

    def __repr__(self) -> str:
        return f"Configuration({self._settings!r})"

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}={value}" for key, value in self._settings.items()) + "}"


def _boolean(key: str, text: str) -> bool:
    try:
        return parse_boolean(text)
    except ConfigurationError:
        raise ConfigurationError(f"{key} is {text!r}; expected true or false") from None


def _number(key: str, text: str, kind: Any) -> Any:
    try:
        return kind(text.strip())
    except ValueError:
        expected = "a whole number" if kind is int else "a number"
        raise ConfigurationError(f"{key} is {text!r}; expected {expected}") from None
