"""The catalogue of options: every key is declared once, checked, and known under its old names."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import ConfigurationError
from penstock.model.configuration import Configuration
from penstock.model.option import KeyFamily, Option
from penstock.model.options.catalogue import (
    FAMILIES,
    MODULES,
    OLD_KEYS,
    OPTIONS,
    check_setting,
    find_option,
    options_in,
    renamed_settings,
    settings_without_effect,
    with_new_names,
)
from penstock.model.options.flink_options import FAMILIES as FLINK_FAMILIES

PACKAGE = Path(penstock.__file__).parent
DECLARATIONS = PACKAGE / "model" / "options"
USER_PROGRAMS = PACKAGE / "cli" / "demo"
"""The demo's job is written as users write theirs."""


def test_every_key_is_declared_once() -> None:
    keys = [option.key for module in MODULES for option in options_in(module)]
    assert len(keys) == len(set(keys)) == len(OPTIONS)
    assert not set(OLD_KEYS) & set(OPTIONS)


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
def test_every_option_says_what_it_does_or_why_it_does_nothing(option: Option[Any]) -> None:
    assert find_option(option.key) is option
    assert re.fullmatch(r"[a-z][\w.-]*", option.key)
    assert option.no_effect or re.fullmatch(r"[A-Z`].*\.", option.text)
    assert not option.no_effect or not option.no_effect.endswith(".")
    if option.default is not None:
        assert option.type.parse(option.type.format(option.default)) == option.default
    assert option.describe_default() and option.type.describe()


def test_every_family_says_what_it_does_or_why_it_does_nothing() -> None:
    for family in FAMILIES:
        assert bool(family.text) != bool(family.no_effect), family.prefix
        assert find_option(family.prefix + "x"), family.prefix
    no_typos_accepted = ("execution.", "state.", "state.backend.", "pipeline.", "restart-strategy.", "penstock.")
    assert not {family.prefix for family in FLINK_FAMILIES} & set(no_typos_accepted)


def literals(path: Path) -> list[tuple[int, str]]:
    """The texts in a module, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]


def test_no_other_module_spells_a_key() -> None:
    """So that its default, its type and its name are in one place."""
    known = {*OPTIONS, *OLD_KEYS} - {"restart-strategy"}
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text!r}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if DECLARATIONS not in path.parents and USER_PROGRAMS not in path.parents
        for line, text in literals(path)
        if known & set(re.findall(r"[a-zA-Z][\w-]*(?:\.[\w-]+)+", text))
    ]
    assert not found, "\n".join(found)


def test_the_check_for_spelled_keys_finds_one(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text(
        '"""rest.port"""\n\ndef f():\n    """rest.port"""\n    return f"set {1} rest.port"\n', encoding="utf-8"
    )
    assert [line for line, text in literals(file) if "rest.port" in text] == [5]


def test_an_unknown_key_is_an_error_that_suggests_the_nearest() -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_setting("execution.checkpointing.intervall", "5s", "-D")
    assert str(caught.value) == (
        "no configuration key 'execution.checkpointing.intervall' (from -D); did you mean "
        "'execution.checkpointing.interval'?"
    )
    with pytest.raises(ConfigurationError, match="no configuration key 'zzz' .from -D.; see the reference"):
        check_setting("zzz", "5s", "-D")
    assert find_option("zzz") is None
    check_setting("spark.anything", "", "-D")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("execution.checkpointing.interval", "soon"),
        ("execution.checkpointing.mode", "twice"),
        ("execution.checkpointing.num-retained", "two"),
        ("execution.checkpointing.incremental", "maybe"),
        ("execution.checkpointing.data-inline-threshold", "small"),
        ("restart-strategy.exponential-delay.jitter-factor", "some"),
        ("penstock.event-time.null", "ignore"),
        ("rest.bind-port", "many"),
    ],
)
def test_a_value_of_the_wrong_form_is_an_error_that_names_key_and_origin(key: str, value: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_setting(key, value, "-D")
    assert str(caught.value).startswith(f"{key} (from -D): {value!r} is not")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("execution.checkpointing.mode", "EXACTLY_ONCE"),
        ("execution.checkpointing.mode", "at-least-once"),
        ("state.backend.rocksdb.predefined-options", "FLASH_SSD_OPTIMIZED"),
        ("state.backend.rocksdb.predefined-options", "flash-ssd-optimized"),
        ("execution.runtime-mode", "STREAMING"),
        ("pipeline.global-job-parameters.x", "anything"),
    ],
)
def test_words_are_accepted_in_the_spelling_of_pyflink_too(key: str, value: str) -> None:
    check_setting(key, value, "-D")


@pytest.mark.parametrize("old", sorted(OLD_KEYS))
def test_old_keys_become_the_new_ones(old: str) -> None:
    values = {
        key: OPTIONS[key].type.format(default)
        for key in OLD_KEYS[old]
        if (default := OPTIONS[key].default) is not None and default != ()
    }
    value = next(iter(values.values()), "none")
    renamed = with_new_names({old: value})
    assert renamed == dict.fromkeys(OLD_KEYS[old], value)
    assert renamed_settings({old: value}) == [f"{old} is an old name; it sets {', '.join(OLD_KEYS[old])}"]
    for key in OLD_KEYS[old]:
        assert Configuration.from_dict({old: value}).get(OPTIONS[key]) == OPTIONS[key].type.parse(value)


def test_a_new_key_wins_over_its_old_name() -> None:
    settings = {"execution.checkpointing.dir": "new", "state.checkpoints.dir": "old"}
    assert with_new_names(settings) == {"execution.checkpointing.dir": "new"}
    assert with_new_names(dict(reversed(settings.items()))) == {"execution.checkpointing.dir": "new"}


@pytest.mark.parametrize("storage", ["jobmanager", "filesystem"])
def test_h1_old_backends_were_a_backend_and_a_storage(storage: str) -> None:
    expected = {"state.backend.type": "hashmap", "execution.checkpointing.storage": storage}
    assert with_new_names({"state.backend": storage}) == expected
    (line,) = renamed_settings({"state.backend": storage})
    assert line.endswith(f"it sets state.backend.type: hashmap, execution.checkpointing.storage: {storage}")


def test_keys_without_a_meaning_here_are_accepted_with_one_line_each() -> None:
    settings = {"python.execution-mode": "thread", "metrics.reporter": "x", "parallelism.default": "2"}
    for key, value in settings.items():
        check_setting(key, value, "-D")
    lines = settings_without_effect(Configuration.from_dict(settings))
    assert [line.split()[0] for line in lines] == ["metrics.reporter", "python.execution-mode"]
    assert all(" has no effect here: " in line for line in lines)


def test_a_single_option_wins_over_the_family_of_its_prefix() -> None:
    assert isinstance(find_option("python.anything"), KeyFamily)
    option = find_option("python.executable")
    assert isinstance(option, Option) and option.no_effect == "set PYSPARK_PYTHON or `spark.pyspark.python`"
    memory = find_option("jobmanager.memory.process.size")
    assert memory is not None and memory.no_effect == "set `spark.driver.memory`"
