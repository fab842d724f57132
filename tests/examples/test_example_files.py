"""Every example is short, has its output beside it, and is in the README."""

import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))
MAX_LINES = 60


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_is_short_and_has_its_output_beside_it(program: Path) -> None:
    assert len(program.read_text(encoding="utf-8").splitlines()) <= MAX_LINES
    assert program.with_suffix(".out").read_text(encoding="utf-8").strip()


def test_the_readme_lists_every_example_and_no_other() -> None:
    listed = re.findall(
        r"^\| \[(\w+\.py)\]\(\1\) \|", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert listed == [path.name for path in PROGRAMS]


def test_every_output_belongs_to_an_example() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.out")} == {path.stem for path in PROGRAMS}
