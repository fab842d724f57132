"""Hooks of the documentation site (`mkdocs.yml`): folders in the navigation, links to code, and no foreign hosts.

The pages link to source files and to the README as `../penstock/…`, which works on a code host. Those files are not
part of the site, so here such a link becomes plain text, after a check that the file exists.
"""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LOADED = re.compile(
    r"<(?:script|img|iframe|source)[^>]+src=\"?(?:https?:)?//[^\s\">]+"
    r"|<link[^>]+rel=\"?(?:stylesheet|preload|preconnect|icon)[^>]+href=\"?(?:https?:)?//[^\s\">]+"
    r"|<link[^>]+href=\"?(?:https?:)?//[^\s\">]+[^>]+rel=\"?(?:stylesheet|preload|preconnect|icon)"
    r"|@import\s+(?:url\()?[\"']?(?:https?:)?//[^\s\"')]+",
)


def on_config(config: Any) -> Any:
    """Replace each folder in the navigation by its pages."""
    config["nav"] = [expand(entry) for entry in config["nav"]]
    return config


def expand(entry: Any) -> Any:
    """An entry of the navigation with its folders replaced, at any depth."""
    if isinstance(entry, dict):
        return {title: expand(value) for title, value in entry.items()}
    if isinstance(entry, list):
        return [expand(value) for value in entry]
    return pages_of(DOCS / entry) if isinstance(entry, str) and entry.endswith("/") else entry


def pages_of(folder: Path) -> list[str]:
    """The pages of a folder: its index first, the others by title."""
    pages = sorted(folder.glob("*.md"), key=lambda path: (path.name != "index.md", title_of(path).lower()))
    if not pages:
        raise SystemExit(f"mkdocs.yml names the folder {folder.relative_to(ROOT)}, which has no pages")
    return [page.relative_to(DOCS).as_posix() for page in pages]


def title_of(path: Path) -> str:
    """The text of the first heading."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line.removeprefix("# ").strip("` ")
    raise SystemExit(f"{path.relative_to(ROOT)} has no title: begin it with a line `# …`")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with links to files outside docs/ as plain text."""
    return unlink_outside(markdown, DOCS / page.file.src_uri)


def unlink_outside(markdown: str, path: Path) -> str:
    """Links that leave docs/ replaced by their text; one whose file does not exist ends the build."""

    def shown(match: re.Match[str]) -> str:
        text, target = match.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return match.group()
        file = (path.parent / target.partition("#")[0]).resolve()
        if file.is_relative_to(DOCS):
            return match.group()
        if not file.exists():
            raise SystemExit(f"{path.relative_to(ROOT)} links to {target}, which does not exist")
        return text

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(shown, part) for part in parts)


def on_post_build(config: Any) -> None:
    """End the build if a page would load anything from another host."""
    site = Path(config["site_dir"])
    found = [
        f"{file.relative_to(site)}: {match}"
        for file in sorted(site.rglob("*"))
        if file.suffix in (".html", ".css")
        for match in _LOADED.findall(file.read_text(encoding="utf-8"))
    ]
    if found:
        raise SystemExit("pages load from other hosts:\n" + "\n".join(found))
