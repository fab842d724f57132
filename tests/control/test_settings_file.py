"""Configuration files: what may stand in them, and that every mistake is reported with file and line."""

from pathlib import Path

import pytest

from penstock.control.settings_file import read_settings_file
from penstock.errors import ConfigurationError


def test_keys_may_be_nested_and_values_may_be_lists(tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text("# a comment\na:\n  b: true\n  c: [1, 2]\nd.e: 5s\nf: 'x: y'\n", encoding="utf-8")
    source = read_settings_file(file)
    assert source is not None
    assert source.settings == {"a.b": "true", "a.c": "1;2", "d.e": "5s", "f": "x: y"}
    assert [source.origin(key) for key in ("a.b", "d.e")] == [f"{file}, line 3", f"{file}, line 5"]


def test_values_are_the_text_as_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text("a: off\nb: 010\nc: 1_000\nd: 2020-01-01\ne: 1e3\nf: no\n", encoding="utf-8")
    source = read_settings_file(file)
    assert source is not None
    assert source.settings == {"a": "off", "b": "010", "c": "1_000", "d": "2020-01-01", "e": "1e3", "f": "no"}


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_holds_no_settings(text: str, tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text(text, encoding="utf-8")
    source = read_settings_file(file)
    assert source is not None and source.settings == {}


def test_an_absent_file_is_none(tmp_path: Path) -> None:
    assert read_settings_file(tmp_path / "penstock.yaml") is None
    (tmp_path / "file").touch()
    assert read_settings_file(tmp_path / "file" / "penstock.yaml") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n- b\n", "{} does not hold settings"),
        ("a: 1\nb: [", "{}, line 2: this is not valid YAML: expected the node content"),
        ("a: \x00", "{}: this is not valid YAML: unacceptable character"),
        ("x: 1\na:\n", "{}, line 2: a has no value"),
        ("x: !!python/name:os.system y\n", "{}, line 1: x is not text, a number or a boolean"),
        ("x: !!binary aGk=\n", "{}, line 1: x is not text, a number or a boolean"),
        ("a: 1\nb: 2\na: 3\n", "{}, line 3: a is set before, in line 1"),
        ("a:\n  b: 1\na.b: 2\n", "{}, line 3: a.b is set before, in line 2"),
        ("a:\n  - x\n  - y: 1\n", "{}, line 3: an entry of a is not text, a number or a boolean"),
        ("? [1, 2]\n: x\n", "{}, line 1: a key is not text, a number or a boolean"),
        ("a: &loop\n  b: *loop\n", "{}, line 1: .* is nested more than 20 levels deep"),
    ],
)
def test_a_file_that_does_not_hold_settings_is_an_error_with_its_line(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="^" + problem.format(file)):
        read_settings_file(file)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot read {tmp_path}: "):
        read_settings_file(tmp_path)
    (tmp_path / "penstock.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="cannot read .*penstock.yaml: "):
        read_settings_file(tmp_path / "penstock.yaml")
