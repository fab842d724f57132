"""Links in the documentation lead somewhere, on a code host too: to files of the repository and to headings in them."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, all_pages

FILES = [*all_pages(), ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]
_CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)


def prose(text: str) -> str:
    """Without code, which may look like a link."""
    return _CODE.sub("", text)


@cache
def anchors(path: Path) -> frozenset[str]:
    """The names of a page's headings, as code hosts and mkdocs make them."""
    text = re.sub(r"^ *```.*?^ *```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return frozenset(slug(heading) for heading in _HEADING.findall(text))


def slug(heading: str) -> str:
    """
    >>> slug("Set `a.b` and *c*: twice"), slug("[`penstock.common`](penstock.common.md)")
    ('set-ab-and-c-twice', 'penstockcommon')
    """
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    wrong = []
    for target in _LINK.findall(prose(path.read_text(encoding="utf-8"))):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, anchor = target.partition("#")
        found = (path.parent / file).resolve() if file else path
        if not found.is_relative_to(ROOT) or not found.exists():
            wrong.append(f"{target}: there is no such file")
        elif anchor and found.suffix == ".md" and anchor not in anchors(found):
            wrong.append(f"{target}: there is no such heading")
    assert not wrong, "\n".join(wrong)


def test_every_page_is_linked_from_another() -> None:
    linked = {
        (path.parent / target.partition("#")[0]).resolve()
        for path in FILES
        for target in _LINK.findall(prose(path.read_text(encoding="utf-8")))
    }
    assert not [str(path.relative_to(ROOT)) for path in DOCS.rglob("*.md") if path not in linked | {DOCS / "index.md"}]
