"""The hooks of the documentation site: the navigation, links to code, and what pages load."""

from pathlib import Path

import pytest

from tests.loading import load_script

hooks = load_script("site_hooks")


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "docs"
    (folder / "how-to").mkdir(parents=True)
    for name, title in (("b.md", "Alpha"), ("a.md", "Beta"), ("index.md", "Zeta")):
        (folder / "how-to" / name).write_text(f"# {title}\n", encoding="utf-8")
    (tmp_path / "code.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(hooks, "ROOT", tmp_path)
    monkeypatch.setattr(hooks, "DOCS", folder)
    return folder


def test_a_folder_of_the_navigation_is_its_pages_with_the_index_first(docs: Path) -> None:
    nav = [{"Start": "index.md"}, {"More": [{"How to": "how-to/"}]}]
    pages = ["how-to/index.md", "how-to/b.md", "how-to/a.md"]
    assert hooks.expand(nav) == [{"Start": "index.md"}, {"More": [{"How to": pages}]}]


def test_a_folder_without_pages_and_a_page_without_a_title_end_the_build(docs: Path) -> None:
    with pytest.raises(SystemExit, match="which has no pages"):
        hooks.expand("nothing/")
    (docs / "how-to" / "a.md").write_text("no title\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="has no title"):
        hooks.expand("how-to/")


def test_links_to_code_become_text_and_others_stay(docs: Path) -> None:
    page = docs / "how-to" / "a.md"
    text = "[code](../../code.py) [`b`](b.md#x) [web](https://example.org)\n```text\n[no](../../gone.py)\n```\n"
    assert hooks.unlink_outside(text, page) == text.replace("[code](../../code.py)", "code")


def test_a_link_to_code_that_is_gone_ends_the_build(docs: Path) -> None:
    with pytest.raises(SystemExit, match="links to ../../gone.py, which does not exist"):
        hooks.unlink_outside("[gone](../../gone.py)", docs / "how-to" / "a.md")


@pytest.mark.parametrize(
    "loading",
    [
        '<script src="https://example.org/x.js"></script>',
        '<link rel="stylesheet" href="//example.org/x.css">',
        '<link href="https://example.org/x.css" rel="preconnect">',
        '<img alt="" src=https://example.org/x.png>',
        "<style>@import url(https://example.org/x.css)</style>",
    ],
)
def test_a_page_that_loads_from_another_host_ends_the_build(loading: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(f"<html>{loading}</html>", encoding="utf-8")
    with pytest.raises(SystemExit, match="example.org"):
        hooks.on_post_build({"site_dir": str(tmp_path)})


def test_links_to_other_hosts_are_fine(tmp_path: Path) -> None:
    links = '<a href="https://example.org">x</a><link rel="canonical" href="https://example.org">'
    (tmp_path / "index.html").write_text(f'{links}<script src="x.js"></script>', encoding="utf-8")
    hooks.on_post_build({"site_dir": str(tmp_path)})


def test_the_build_is_strict() -> None:
    """With --quiet mkdocs does not see its own warnings, and broken links pass."""
    makefile = (Path(__file__).resolve().parent.parent.parent / "Makefile").read_text(encoding="utf-8")
    (line,) = (line for line in makefile.splitlines() if "mkdocs build" in line)
    assert "--strict" in line and "--quiet" not in line
