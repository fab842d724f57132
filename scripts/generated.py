"""Files of the documentation that a script writes from the code: written, or compared with what would be written."""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def write_or_check(files: dict[Path, str], arguments: list[str], about: str) -> int:
    """The exit code of a script whose files these are: 1 if `--check` finds one that is not current.

    Files in the folders of the given ones that begin with the same mark and are not given are leftovers of a module
    or class that is gone: they are removed, and `--check` reports them.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--check", action="store_true", help="compare only, and write nothing")
    is_check = parser.parse_args(arguments).check
    stale = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    left = _leftovers(files)
    if is_check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not current: run `make docs-sources`", file=sys.stderr)
        for path in left:
            print(f"{path.relative_to(ROOT)} is of something that is gone: run `make docs-sources`", file=sys.stderr)
        return int(bool(stale or left))
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], encoding="utf-8")
        print(f"{path.relative_to(ROOT)} written")
    for path in left:
        path.unlink()
        print(f"{path.relative_to(ROOT)} removed")
    return 0


def mark(script: str) -> str:
    """The line by which a generated Markdown file is known."""
    return f"<!-- Written by scripts/{script}: run `make docs-sources` instead of changing it. -->"


def _leftovers(files: dict[Path, str]) -> list[Path]:
    marks = {text.partition("\n")[0] for text in files.values() if text.startswith("<!-- Written by")}
    folders = {path.parent for path in files}
    found = (path for folder in sorted(folders) for path in sorted(folder.glob("*.md")) if path not in files)
    return [path for path in found if path.read_text(encoding="utf-8").partition("\n")[0] in marks]
