"""Which tests show which rows of the feature table: the tables in docs/reference/checkpointing.md and savepoints.md.

    python scripts/feature_rows.py            # writes the table anew
    python scripts/feature_rows.py --check    # fails if it is not what it would write

Both fail, and name the rows, if a row has no test. A test shows a row if its name begins with the row's id:
`test_k7_…`, `test_l6_m6_…`.
"""

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
BEGIN, END = "<!-- rows: begin -->\n", "<!-- rows: end -->\n"
CHECKPOINTING = {
    "K1": "checkpoints are off without an interval, which is 10 ms or more",
    "K2": "exactly once, or at least once",
    "K3": "timeout",
    "K4": "pause between checkpoints",
    "K5": "checkpoints at once, and their order",
    "K6": "retained checkpoints",
    "K7": "tolerable failures",
    "K8": "what outlives the job",
    "K9": "local recovery",
    "K10": "unaligned checkpoints: one at a time, exactly once",
    "K11": "aligned timeout",
    "K12": "unaligned with a partitioner of one's own",
    "K13": "checkpoints after sources have ended, and at the end",
    "K14": "folders of checkpoints and savepoints",
    "L1": "one coordinator, complete with all acks",
    "L2": "barriers divide the records",
    "L3": "the write is asynchronous",
    "L4": "aligned barriers",
    "L5": "unaligned barriers",
    "L6": "at least once",
    "L7": "a newer checkpoint ends older ones",
    "L8": "a subtask that declines",
    "L9": "inputs that have ended",
    "M1": "layout of the folder",
    "M2": "numbers only grow",
    "M3": "the manifest",
    "M4": "subsumed checkpoints go",
    "M5": "failed checkpoints leave no files",
    "M6": "checkpoints by hand",
    "M7": "checkpoints and savepoints",
    "P1": "no restart",
    "P2": "fixed delay",
    "P3": "failure rate",
    "P4": "exponential delay",
    "P5": "fallback",
    "P7": "job statuses",
    "P8": "attempt number",
}
SAVEPOINTS = {
    "N1": "the folder of a savepoint",
    "N2": "a savepoint of a running job, with and without checkpoints",
    "N3": "stop with a savepoint",
    "N4": "drain",
    "N5": "cancel with a savepoint, and one that fails",
    "N6": "dispose",
    "N7": "complete in itself, movable",
    "N8": "canonical format",
    "N9": "native format",
    "N10": "detached trigger",
    "N11": "no place given",
    "N12": "two jobs from one savepoint",
    "O1": "operator ids of uids",
    "O2": "derived uids",
    "O3": "uid hashes by hand",
    "O4": "state without an operator",
    "O5": "state that is left out",
    "O6": "new operators",
    "O7": "operators in another order",
    "O8": "the path to start from",
    "O9": "claim modes",
    "O10": "another parallelism",
    "O11": "schema evolution",
    "O12": "a state of another type",
    "S1": "states as DataFrames",
    "S2": "new savepoints",
    "S3": "changed savepoints",
    "S4": "a snapshot as a database",
    "S5": "metadata, and SQL",
    "S6": "another max parallelism",
}
PAGES = {"checkpointing.md": CHECKPOINTING, "savepoints.md": SAVEPOINTS}
_TEST = re.compile(r"^\s*def (test_\w+)", re.MULTILINE)
_IDS = re.compile(r"test((?:_[klmnops]\d+)+)_")


def main(arguments: list[str]) -> int:
    """Write or check the table; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare the page with what would be written")
    check = parser.parse_args(arguments).check
    found = find_tests(ROOT / "tests")
    bare = [row for rows in PAGES.values() for row in rows if row not in found]
    if bare:
        print(f"no test shows {', '.join(bare)}: name one test_{bare[0].lower()}_…", file=sys.stderr)
        return 1
    return max(update(REFERENCE / name, table(rows, found), check=check) for name, rows in PAGES.items())


def update(path: Path, content: str, *, check: bool) -> int:
    """Write or check the table of a page; 1 if it is only checked and not current."""
    page = path.read_text(encoding="utf-8")
    wanted = with_table(page, content)
    if wanted != page and check:
        print(f"{path.relative_to(ROOT)} is not current: run `python scripts/feature_rows.py`", file=sys.stderr)
        return 1
    path.write_text(wanted, encoding="utf-8")
    return 0


def find_tests(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Row -> file below the folder's parent and name of each test that shows it, in order."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        for name in _TEST.findall(path.read_text(encoding="utf-8")):
            for row in ids_of(name):
                found.setdefault(row, []).append((path.relative_to(folder.parent).as_posix(), name))
    return found


def ids_of(name: str) -> list[str]:
    """The rows that a test's name begins with.

    >>> ids_of("test_l6_m6_output_comes_twice"), ids_of("test_r4_fenced")
    (['L6', 'M6'], [])
    """
    match = _IDS.match(name)
    return [word.upper() for word in match.group(1).split("_") if word] if match else []


def table(rows: dict[str, str], found: dict[str, list[tuple[str, str]]]) -> str:
    """The table, one line per row."""
    lines = ["| row | what | tests |", "|---|---|---|"]
    lines += [f"| {row} | {what} | {_links(found[row])} |" for row, what in rows.items()]
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
