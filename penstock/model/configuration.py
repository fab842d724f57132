"""`Configuration`: settings by key, as text, with PyFlink's typed getters and setters."""

from collections.abc import Mapping
from typing import Any

from penstock.errors import ConfigurationError

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


class Configuration:
    """A set of settings. Setters return the object itself; getters give the default when the key is not set.

    >>> Configuration().set_integer("parallelism.default", 2).get_integer("parallelism.default", 1)
    2
    """

    def __init__(self, other: "Configuration | None" = None) -> None:
        self._settings: dict[str, str] = dict(other._settings) if other is not None else {}

    @staticmethod
    def from_dict(settings: Mapping[str, Any]) -> "Configuration":
        """The configuration with these settings."""
        configuration = Configuration()
        for key, value in settings.items():
            configuration._set(key, value)
        return configuration

    def _set(self, key: str, value: Any) -> "Configuration":
        """Set a key to text, a number or a boolean."""
        if not isinstance(key, str) or not key:
            raise ConfigurationError(f"a configuration key is text, not {key!r}")
        if not isinstance(value, (str, int, float)):
            raise ConfigurationError(f"{key} cannot be {value!r}; give text, a number or a boolean")
        self._settings[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

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
        return self._set(key, bytes(value).decode("latin-1"))

    def key_set(self) -> set[str]:
        """The keys that are set."""
        return set(self._settings)

    def contains_key(self, key: str) -> bool:
        """Whether the key is set."""
        return key in self._settings

    def add_all(self, other: "Configuration", prefix: str | None = None) -> "Configuration":
        """Take over all settings of another configuration, with `prefix` before their keys."""
        for key, value in other._settings.items():
            self._settings[(prefix or "") + key] = value
        return self

    def add_all_to_dict(self, target_dict: dict[str, str]) -> None:
        """Put all settings into a dictionary."""
        target_dict.update(self._settings)

    def remove_config(self, key: str) -> bool:
        """Unset a key; says whether it was set."""
        return self._settings.pop(key, None) is not None

    def to_dict(self) -> dict[str, str]:
        """All settings, in the order they were set."""
        return dict(self._settings)

    def __contains__(self, key: object) -> bool:
        return key in self._settings

    def __deepcopy__(self, memo: dict[int, Any]) -> "Configuration":
        return Configuration(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._settings == other._settings

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __repr__(self) -> str:
        return f"Configuration({self._settings!r})"

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}={value}" for key, value in self._settings.items()) + "}"


def is_boolean(text: str) -> bool:
    """Whether the text is a boolean as configuration files write it."""
    return text.strip().lower() in (*_TRUE, *_FALSE)


def _boolean(key: str, text: str) -> bool:
    if not is_boolean(text):
        raise ConfigurationError(f"{key} is {text!r}; expected true or false")
    return text.strip().lower() in _TRUE


def _number(key: str, text: str, kind: Any) -> Any:
    try:
        return kind(text.strip())
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise ConfigurationError(f"{key} is {text!r}; expected {wanted}") from None
