"""What the page's scripts compute, where Node.js can run them."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.control.terminal import visible
from penstock.rest import page
from tests.rest.node import needs_node, run_node

pytestmark = needs_node


def run(folder: Path, expression: str) -> Any:
    """The value of an expression that uses `exact.js` or `texts.js`."""
    for name in ("exact", "texts"):
        (folder / f"{name}.mjs").write_bytes(page.page_files()[f"{name}.js"])
    script = "import * as exact from './exact.mjs'; import * as texts from './texts.mjs';"
    script += f"console.log(JSON.stringify({expression}));"
    (folder / "main.mjs").write_text(script, encoding="utf-8")
    return json.loads(run_node(folder, "main.mjs"))


@pytest.mark.parametrize(
    "value",
    [
        *("9007199254740993", "-18446744073709551617", "1.50", "-3e+10", "true", "null", "[]", "{}"),
        '"n5"',
        '"a \\"quoted\\" 9007199254740993 \\\\"',
        '{"2": 1, "1": 2, "__proto__": [{"$tuple": [1234567890123456789, "s"]}]}',
    ],
)
def test_a_value_is_shown_as_the_server_wrote_it(tmp_path: Path, value: str) -> None:
    shown = run(tmp_path, f"exact.show(exact.parse({json.dumps(value)}))")
    assert "".join(shown.split()) == "".join(value.split())
    assert json.loads(shown) == json.loads(value)


def test_a_key_is_sent_as_it_was_typed(tmp_path: Path) -> None:
    typed = [("9007199254740993", ["LONG"]), ("123", ["STRING"]), ("ada", ["LONG"]), ('["a", 1]', ["STRING", "LONG"])]
    keys = ", ".join(f"exact.keyJson({json.dumps(text)}, {json.dumps(types)})" for text, types in typed)
    assert run(tmp_path, f"[{keys}]") == ["9007199254740993", '"123"', '"ada"', '["a", 1]']
    assert run(tmp_path, "exact.namespaceJson('[0, 5000]')") == '{"$tuple":[0, 5000]}'


def test_rest_r13_the_page_escapes_what_the_terminal_escapes(tmp_path: Path) -> None:
    codes = (*range(0x0D), *range(0x0E, 0x250), *range(0x600, 0x650), *range(0x2000, 0x2100), 0xFEFF)
    texts = [f"a{chr(code)}b" for code in codes]
    assert run(tmp_path, f"{json.dumps(texts)}.map(texts.visible)") == [visible(text) for text in texts]
