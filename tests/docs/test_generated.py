"""The pages and the picture that scripts make from the code are current: `make docs-sources` writes them."""

import subprocess
import sys

import pytest

from tests.docs.pages import DOCS, ROOT


@pytest.mark.parametrize("script", ["error_reference", "api_reference", "house"])
def test_what_a_script_writes_is_current(script: str) -> None:
    command = [sys.executable, str(ROOT / "scripts" / f"{script}.py"), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_leftover_and_a_changed_page_are_found(tmp_path, monkeypatch, capsys) -> None:
    from scripts import generated

    monkeypatch.setattr(generated, "ROOT", tmp_path)
    kept, gone = tmp_path / "kept.md", tmp_path / "gone.md"
    files = {kept: f"{generated.mark('x.py')}\n# Kept\n"}
    gone.write_text(f"{generated.mark('x.py')}\n# Gone\n", encoding="utf-8")
    (tmp_path / "mine.md").write_text("# Mine\n", encoding="utf-8")
    assert generated.write_or_check(files, ["--check"], "") == 1
    assert "kept.md is not current" in (told := capsys.readouterr().err) and "gone.md is of something" in told
    assert generated.write_or_check(files, [], "") == generated.write_or_check(files, ["--check"], "") == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.md", "mine.md"]


def test_pictures_have_a_title_and_a_description() -> None:
    pictures = sorted((DOCS / "images").glob("*.svg"))
    assert pictures
    for picture in pictures:
        text = picture.read_text(encoding="utf-8")
        assert "<title" in text and "<desc" in text and "prefers-color-scheme: dark" in text, picture.name
