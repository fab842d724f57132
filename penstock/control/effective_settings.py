"""The settings that a job runs with, and where each of them comes from.

The program wins over `-Dkey=value`, and that over the configuration files: `penstock.yaml` in the working folder, then
the user's, then the machine's. Files are merged key by key.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.control.settings_file import SettingsSource, read_settings_file
from penstock.errors import ConfigurationError
from penstock.model.configuration import Configuration
from penstock.model.options.catalogue import (
    check_setting,
    keys_of_backend,
    meaning_of_old_key,
    with_new_names,
)

FILE_NAME = "penstock.yaml"
FOLDER_VARIABLE = "PENSTOCK_CONF_DIR"
MACHINE_FOLDER = Path("/etc/penstock")
PROGRAM = "the program"
COMMAND_LINE = "-D"
_SECRET = re.compile(
    r"passw(or)?d|passphrase|secret|token|credential|(access|account|api|private|service|encryption).?key"
    r"|connection.?string|jaas.?config|basic.?auth|auth.?params|http.?headers|(^|[._-])(pass|pwd)([._-]|$)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class EffectiveSettings:
    """Merged settings."""

    configuration: Configuration
    origins: Mapping[str, str]
    """Where each key of the configuration was set."""


def load_settings(
    program: Configuration, overrides: Mapping[str, str], files: Iterable[SettingsSource] | None = None
) -> EffectiveSettings:
    """The settings that are in effect. `overrides` are those of the command line.

    Raises ConfigurationError for an unknown key or a value that is not allowed, wherever it comes from.
    """
    sources = [SettingsSource(PROGRAM, program.to_dict()), SettingsSource(COMMAND_LINE, overrides)]
    return merge_settings([*sources, *(settings_files() if files is None else files)])


def settings_files() -> list[SettingsSource]:
    """The configuration files that exist, highest precedence first."""
    places = [(Path(FILE_NAME), f"./{FILE_NAME}"), (user_file(), None), (MACHINE_FOLDER / FILE_NAME, None)]
    found = [read_settings_file(path, name) for path, name in places]
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder and found[1] is None:
        raise ConfigurationError(f"{FOLDER_VARIABLE} is {folder!r}, but there is no {FILE_NAME} in that folder")
    return [source for source in found if source is not None]


def user_file() -> Path:
    """The user's configuration file: in `$PENSTOCK_CONF_DIR`, or else in the configuration folder of the desktop."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        return Path(folder).expanduser() / FILE_NAME
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home) / "penstock" / FILE_NAME


def merge_settings(sources: Iterable[SettingsSource]) -> EffectiveSettings:
    """The settings of all sources, highest precedence first. Old keys become the new ones."""
    found = [
        (key, value, source.origin(_written_key(key, source.settings)))
        for source in reversed(list(sources))
        for key, value in with_new_names(source.settings).items()
    ]
    merged = Configuration.from_dict({key: value for key, value, _ in found})
    own_keys = keys_of_backend(merged)
    for key, value, origin in found:
        if own_keys is None or not key.startswith(own_keys.prefix):
            check_setting(key, value, origin)
    return EffectiveSettings(merged, {key: origin for key, _, origin in found})


def _written_key(key: str, settings: Mapping[str, str]) -> str:
    """The key under which a setting is written: its own, or an old name of it."""
    if key in settings:
        return key
    return next(old for old, value in settings.items() if key in meaning_of_old_key(old, value))


def visible_value(key: str, value: str) -> str:
    """The value of a setting, or asterisks if its key says that it is secret.

    >>> visible_value("rest.port", "8081"), visible_value("spark.authenticate.secret", "x")
    ('8081', '******')
    """
    return "******" if _SECRET.search(key) else value
