"""The reference of all options is the one that their declarations give."""

from penstock.model.options.catalogue import FAMILIES, OPTIONS
from tests.loading import load_script

script = load_script("options_page")


def test_the_committed_page_is_current() -> None:
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), "run `python scripts/options_page.py`"


def test_every_key_is_on_the_page_once() -> None:
    first_cells = [line.split(" | ")[0].strip("| ") for line in script.page().splitlines() if line.startswith("| `")]
    keys = [f"`{key}`" for key in OPTIONS] + [f"`{family.prefix}*`" for family in FAMILIES]
    assert sorted(first_cells) == sorted(keys)
