"""Which files of a folder are read, in which order, and how Spark writes their addresses."""

import os
from pathlib import Path

import pytest

from penstock.connectors.file_source.listing import address_of, list_files, path_of
from penstock.errors import UnsupportedValueError, UsageError


def put(path: Path, modified_s: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x", encoding="utf-8")
    os.utime(path, (modified_s, modified_s))
    return path


def names(folder: Path) -> list[str]:
    return [str(Path(file.path).relative_to(folder)) for file in list_files(str(folder))]


def test_the_oldest_file_comes_first_and_files_of_one_age_follow_their_paths(tmp_path: Path) -> None:
    for name, age in {"b": 5, "a": 5, "new": 9, "deep/er/old": 1, "deep/a": 5}.items():
        put(tmp_path / name, age)
    assert names(tmp_path) == ["deep/er/old", "a", "b", "deep/a", "new"]


def test_hidden_names_are_passed_over_in_every_folder(tmp_path: Path) -> None:
    for name in ("_a", ".b", "_c/d", ".e/f", "g/_h", "i._COPYING_", "_day=1/j", "k.json"):
        put(tmp_path / name, 1)
    assert names(tmp_path) == ["_day=1/j", "k.json"]


def test_links_are_followed_and_dead_ones_passed_over(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere" / "a", 1)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in" / "dead").symlink_to(tmp_path / "absent")
    assert names(tmp_path / "in") == ["link/a"]


def test_a_path_may_be_a_file_or_not_be_there_yet(tmp_path: Path) -> None:
    file = put(tmp_path / "a.json", 7)
    assert [(found.path, found.modified_ms) for found in list_files(str(file))] == [(str(file), 7_000)]
    assert list_files(str(put(tmp_path / "_a.json", 7))) == []
    assert list_files(str(tmp_path / "absent")) == []


def test_a_folder_with_the_log_of_sparks_sink_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    with pytest.raises(UsageError, match="Spark's own file sink.*penstock.source.packed: never"):
        list_files(str(tmp_path))


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/in/a.json", "file:///in/a.json"),
        ("/in/a b%20#?.json", "file:///in/a%20b%2520%23%3F.json"),
        ("/in/é€😀.json", "file:///in/é€😀.json"),
        ("/in/a=1;b,c+d&e@f!$'()*~:g", "file:///in/a=1;b,c+d&e@f!$'()*~:g"),
        ('/in/[a]{b}|"^`\\<>', "file:///in/%5Ba%5D%7Bb%7D%7C%22%5E%60%5C%3C%3E"),
        ("/in/a\u00a0b\nc", "file:///in/a%C2%A0b%0Ac"),
    ],
)
def test_addresses_are_quoted_like_javas(path: str, address: str) -> None:
    assert address_of(path) == address and path_of(address) == path


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(UnsupportedValueError, match="is not valid UTF-8"):
        address_of("/in/\udcff")
