"""The programs of docs/connectors/delta.md and iceberg.md, and the readers beside them."""

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.cli.program import run_program
from penstock.control.submission import Submission, submitted
from tests.docs.pages import ROOT, blocks_of, files_of

PAGES = ["docs/connectors/delta.md", "docs/connectors/iceberg.md"]
ROWS = [
    {"id": 1, "country": "ch", "amount": 12.5},
    {"id": 2, "country": "de", "amount": 3.0},
    {"id": 3, "country": "ch", "amount": 7.0},
]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_a_table_format_writes_what_its_reader_prints(
    page: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ((name, text),) = files_of(page).items()
    program = tmp_path / name
    program.write_text(text, encoding="utf-8")
    settings = {"penstock.registry.dir": str(tmp_path / "registry")}
    with submitted(Submission(program, overrides=settings)):
        assert run_program(program, ()) == 0
    reader = next(block for block in blocks_of(ROOT / page) if block.is_part)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(reader.text, page, "exec"), {})
    assert printed.getvalue() == f"{ROWS}\n"
