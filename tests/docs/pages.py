"""The pages of the documentation, cut into their code blocks.

A block says by its language what it is, and a test does the rest:

| block | what is done with it |
|---|---|
| `python` | run; all blocks of a page are one program, in their order |
| `python`, first line `# part of a program` | compiled |
| `python`, first line `# name.py` | a file, run by the test that `test_examples.PROGRAMS` names |
| `output` | compared with what the blocks before it print |
| `console` | lines after `$ ` are commands: their names and flags are checked; output is compared where there is any |
| `yaml` | keys and values of the configuration are checked |
| `text`, `json`, `toml` | only shown |
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
PART = "# part of a program"
_FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+\.py)\n")


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    page: str
    line: int
    language: str
    text: str

    @property
    def is_part(self) -> bool:
        return self.language == "python" and self.text.startswith(PART)

    @property
    def file(self) -> str | None:
        """The name of the program that it is, if it is one."""
        found = _FILE.match(self.text) if self.language == "python" else None
        return found[1] if found else None

    @property
    def is_run(self) -> bool:
        return self.language == "python" and not self.is_part and self.file is None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def all_pages() -> list[Path]:
    """The README and every page of docs/."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def written_pages() -> list[Path]:
    """The pages that people write, without those that scripts write and without the specification."""
    generated = (DOCS / "reference" / "api", DOCS / "internals")
    found = (path for path in all_pages() if not any(path.is_relative_to(folder) for folder in generated))
    return [path for path in found if "<!-- Written by scripts/" not in path.read_text(encoding="utf-8")[:200]]


def blocks_of(path: Path) -> list[Block]:
    """The code blocks of a page, in their order."""
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT).as_posix()
    return [
        Block(name, text.count("\n", 0, match.start()) + 1, match[2], re.sub(f"(?m)^{match[1]}", "", match[3]))
        for match in _FENCE.finditer(text)
    ]


def all_blocks() -> list[Block]:
    """The code blocks of all pages that people write."""
    return [block for path in written_pages() for block in blocks_of(path)]


def files_of(page: str) -> dict[str, str]:
    """Name -> text of the programs of a page; `page` is relative to the repository."""
    return {block.file: block.text for block in blocks_of(ROOT / page) if block.file is not None}
