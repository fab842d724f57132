"""Every configuration key that is accepted: what it means, what its old names are, and whether it has an effect.

Spark's keys (`spark.*`) are passed on as they are. Any other unknown key is an error that suggests the nearest known
one.
"""

import difflib
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from penstock.errors import ConfigurationError
from penstock.model.configuration import Configuration
from penstock.model.option import KeyFamily, Option
from penstock.model.options import (
    autoscale_options,
    availability_options,
    checkpointing_options,
    execution_options,
    flink_options,
    log_options,
    pipeline_options,
    rest_options,
    restart_options,
    rocksdb_options,
    state_options,
)

SPARK_PREFIX = "spark."
SPARK_MASTER = "spark.master"


def options_in(module: ModuleType) -> Iterator[Option[Any]]:
    """The options that a module declares, in the order of the file."""
    for value in vars(module).values():
        if isinstance(value, Option):
            yield value
        elif isinstance(value, tuple):
            yield from (entry for entry in value if isinstance(entry, Option))


def families_in(module: ModuleType) -> Iterator[KeyFamily]:
    """The families of keys that a module declares, in the order of the file."""
    for value in vars(module).values():
        if isinstance(value, KeyFamily):
            yield value
        elif isinstance(value, tuple):
            yield from (entry for entry in value if isinstance(entry, KeyFamily))


MODULES = (
    pipeline_options,
    checkpointing_options,
    restart_options,
    execution_options,
    state_options,
    rocksdb_options,
    rest_options,
    log_options,
    availability_options,
    autoscale_options,
    flink_options,
)
OPTIONS: dict[str, Option[Any]] = {option.key: option for module in MODULES for option in options_in(module)}
FAMILIES: tuple[KeyFamily, ...] = tuple(family for module in MODULES for family in families_in(module))


def _old_keys() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for option in OPTIONS.values():
        for old in option.old_keys:
            found[old] = (*found.get(old, ()), option.key)
    return found


OLD_KEYS = _old_keys()
"""Old key -> the keys that it sets."""
_OLD_WORDS: dict[tuple[str, str], dict[str, str]] = {
    (old, word): {state_options.BACKEND.key: "hashmap", checkpointing_options.STORAGE.key: word}
    for old in state_options.BACKEND.old_keys
    for word in ("jobmanager", "filesystem")
}
"""Values of an old key that chose two things at once: a backend and where checkpoints are stored."""


def keys_of_backend(configuration: Configuration) -> KeyFamily | None:
    """The keys of a state backend that users have registered; None for the backends whose keys are declared here."""
    kind = configuration.get(state_options.BACKEND).strip()
    prefix = f"{state_options.PREFIX}{kind}."
    if kind == state_options.BACKEND.default or any(key.startswith(prefix) for key in OPTIONS):
        return None
    return KeyFamily(prefix, f"Settings of the state backend `{kind}`.")


def find_option(key: str) -> Option[Any] | KeyFamily | None:
    """The option of a key, or the family that it belongs to; None for an unknown key and for keys of Spark."""
    if key in OPTIONS:
        return OPTIONS[key]
    return next((family for family in FAMILIES if key.startswith(family.prefix)), None)


def check_setting(key: str, value: str, origin: str) -> None:
    """Raise ConfigurationError unless the key is known and the value is allowed."""
    if key.startswith(SPARK_PREFIX):
        return
    option = find_option(key)
    if option is None:
        near = difflib.get_close_matches(key, [*OPTIONS, *OLD_KEYS], n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}?" if near else "see the reference of all options, docs/reference/options.md"
        raise ConfigurationError(f"no configuration key {key!r} (from {origin}); {hint}")
    if isinstance(option, KeyFamily):
        return
    try:
        option.type.parse(value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{key} (from {origin}): {error}") from None


def with_new_names(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with old keys replaced. Where a key is set under both names, the new one wins."""
    renamed: dict[str, str] = {}
    for key, value in settings.items():
        renamed.update(meaning_of_old_key(key, value))
    renamed.update((key, value) for key, value in settings.items() if key not in OLD_KEYS)
    return renamed


def meaning_of_old_key(key: str, value: str) -> dict[str, str]:
    """What a setting under an old key sets; empty for a key that is not old."""
    words = _OLD_WORDS.get((key, value.strip().lower()))
    return dict(words) if words is not None else dict.fromkeys(OLD_KEYS.get(key, ()), value)


def renamed_settings(*sources: Mapping[str, str]) -> list[str]:
    """One line for each setting under an old name. Values, which may be secret, are left out."""
    lines = []
    for key, value in {item: None for settings in sources for item in settings.items()}:
        meaning = meaning_of_old_key(key, value)
        if meaning:
            is_word = (key, value.strip().lower()) in _OLD_WORDS
            names = [f"{new}: {text}" if is_word else new for new, text in meaning.items()]
            lines.append(f"{key} is an old name; it sets {', '.join(names)}")
    return lines


def settings_without_effect(configuration: Configuration) -> list[str]:
    """One line for each setting that is accepted and has no effect."""
    lines = []
    for key in sorted(configuration.key_set()):
        option = find_option(key)
        if option is not None and option.no_effect is not None:
            reason = option.no_effect.replace("`", "")  # which the reference page shows as code
            lines.append(f"{key} has no effect here: {reason}")
    return lines
