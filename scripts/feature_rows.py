"""Which tests show which rows of docs/internals/features.md: the tables in two pages beside it.

    python scripts/feature_rows.py            # writes the tables anew
    python scripts/feature_rows.py --check    # fails if they are not what it would write

Both fail, and name the rows, if a row that is done or different has no test. A test shows a row if its name begins with
the row's id: `test_k7_…`, `test_l6_m6_…`.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FEATURES = ROOT / "docs" / "internals" / "features.md"
INTERNALS = ROOT / "docs" / "internals"
BEGIN, END = "<!-- rows: begin -->\n", "<!-- rows: end -->\n"
PAGES = {"tests-of-checkpointing.md": "KLMP", "tests-of-savepoints.md": "NOS"}
"""Page -> the sections of the feature table whose rows it lists."""
_ROW = re.compile(r"^\| ([A-X]\d+) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
_TEST = re.compile(r"^\s*def (test_\w+)", re.MULTILINE)
_IDS = re.compile(r"test((?:_[a-x]\d+)+)_")

Tests = Mapping[str, list[tuple[str, str]]]
"""Row -> file below the folder's parent and name of each test that shows it, in order."""


@dataclass(frozen=True)
class Row:
    """One row of the feature table."""

    id: str
    feature: str
    semantics: str
    state: str

    @property
    def needs_test(self) -> bool:
        """Whether a test must show it."""
        return self.state in ("done", "different")


def main(arguments: list[str]) -> int:
    """Write or check the tables; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare the pages with what would be written")
    check = parser.parse_args(arguments).check
    rows, found = read_rows(FEATURES), find_tests(ROOT / "tests")
    listed = {name: [row for row in rows if row.id[0] in sections] for name, sections in PAGES.items()}
    bare = [row.id for page in listed.values() for row in page if row.needs_test and row.id not in found]
    if bare:
        print(f"no test shows {', '.join(bare)}: name one test_{bare[0].lower()}_…", file=sys.stderr)
        return 1
    return max(update(INTERNALS / name, table(page, found), check=check) for name, page in listed.items())


def read_rows(page: Path) -> list[Row]:
    """The rows of the feature table, in order."""
    return [Row(*found) for found in _ROW.findall(page.read_text(encoding="utf-8"))]


def update(path: Path, content: str, *, check: bool) -> int:
    """Write or check the table of a page; 1 if it is only checked and not current."""
    page = path.read_text(encoding="utf-8")
    wanted = with_table(page, content)
    if wanted != page and check:
        print(f"{path.relative_to(ROOT)} is not current: run `python scripts/feature_rows.py`", file=sys.stderr)
        return 1
    path.write_text(wanted, encoding="utf-8")
    return 0


def find_tests(folder: Path) -> Tests:
    """The tests below a folder by the rows that they show."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        for name in _TEST.findall(path.read_text(encoding="utf-8")):
            for row in ids_of(name):
                found.setdefault(row, []).append((path.relative_to(folder.parent).as_posix(), name))
    return found


def ids_of(name: str) -> list[str]:
    """The ids that a test's name begins with.

    >>> ids_of("test_l6_m6_output_comes_twice"), ids_of("test_output_comes_twice")
    (['L6', 'M6'], [])
    """
    match = _IDS.match(name)
    return [word.upper() for word in match.group(1).split("_") if word] if match else []


def table(rows: Iterable[Row], found: Tests) -> str:
    """The table, one line for each row that has tests."""
    lines = ["| row | feature | tests |", "|---|---|---|"]
    lines += [f"| {row.id} | {row.feature} | {_links(found[row.id])} |" for row in rows if row.id in found]
    return "\n".join(lines) + "\n"


def _links(tests: Iterable[tuple[str, str]]) -> str:
    return "<br>".join(f"[{name}](../../{path})" for path, name in tests)


def with_table(page: str, content: str) -> str:
    """The page with this table between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"the page has no lines {BEGIN.strip()!r} and {END.strip()!r}")
    return f"{before}{begin}{content}{end}{after}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
