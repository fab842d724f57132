"""The Java that Spark needs is looked for before PySpark starts it."""

import os
from pathlib import Path

import pytest

from penstock.errors import JavaNotFoundError
from penstock.spark import java
from penstock.spark.java import require_java

HINT = "install Java 17 or newer, set JAVA_HOME to one, or pip install 'penstock[java]'"


def java_home(folder: Path, version: str, *, release: bool = True) -> Path:
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n", encoding="utf-8")
    launcher.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n', encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setattr(java, "packaged_java", lambda: None)


def refusal() -> str:
    with pytest.raises(JavaNotFoundError) as error:
        require_java()
    assert error.value.exit_code == 2
    return str(error.value)


def test_without_java_one_line_says_what_to_do() -> None:
    assert refusal() == f"no Java: Spark needs one; {HINT}"


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize(("version", "number"), [("1.8.0_412", 8), ("11.0.20", 11)])
def test_a_java_that_is_too_old_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, number: int, release: bool
) -> None:
    home = java_home(tmp_path / "path", version, release=release)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/bin:/usr/bin")
    text = f"Java {number}, which is too old for Spark; {HINT}"
    assert refusal() == f"'{home}/bin/java' on the PATH is {text}"
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert refusal() == f"JAVA_HOME is '{home}', which has {text}"


@pytest.mark.parametrize("release", [True, False])
def test_a_new_java_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: bool) -> None:
    home = java_home(tmp_path / "path", "17.0.15", release=release)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/bin:/usr/bin")
    require_java()


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert refusal() == f"JAVA_HOME is '{tmp_path}', which has no bin/java that can be run; {HINT}"


def test_the_java_of_the_extra_is_found_where_there_is_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = java_home(tmp_path / "package", "21.0.2") / "bin" / "java"
    monkeypatch.setattr(java, "packaged_java", lambda: packaged)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for _ in range(2):  # the launcher of the first time is used again
        monkeypatch.delenv("JAVA_HOME", raising=False)
        require_java()
        home = Path(os.environ["JAVA_HOME"])
        assert home.parent == tmp_path / "cache" / "penstock"
        assert f'exec "{packaged}"' in (home / "bin" / "java").read_text(encoding="utf-8")
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]
