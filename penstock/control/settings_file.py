"""A configuration file: where its settings are, and the line of each for messages about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.errors import ConfigurationError


@dataclass(frozen=True)
class SettingsSource:
    """Settings that come from one place."""

    name: str
    settings: Mapping[str, str]
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line of each key, in a file."""

    def origin(self, key: str) -> str:
        """The place of a setting, as messages name it."""
        return f"{self.name}, line {self.lines[key]}" if key in self.lines else self.name


def read_settings_file(path: Path, name: str | None = None) -> SettingsSource | None:
    """The settings of a file, None if there is no such file. Raises ConfigurationError if it cannot be read.

    Keys of nested mappings are joined by dots, entries of a list by semicolons. Values are the text as it is written.
    """
    name = name or str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {name}: {error}") from error
    from penstock.control.settings_yaml import parse_yaml  # commands start faster without it, and few users have a file

    settings, lines = parse_yaml(text, name)
    return SettingsSource(name, settings, lines)
