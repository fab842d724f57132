"""The examples in docs/ run as they are written, one page in one go."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PAGES = ["how-to/operator-state.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_do_what_they_say(page: str) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.S | re.M)
    assert len(blocks) >= 2
    exec(compile("\n".join(blocks), page, "exec"), {"__name__": "example"})
