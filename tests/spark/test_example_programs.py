"""Every program of examples/ prints what the file beside it says.

`name.py` with `name.out` is an example. Its lines are compared sorted, because subtasks print independently of each
other. `PENSTOCK_RECORD_EXAMPLES=1` writes the files of examples that have none.
"""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.cli.program import run_program
from penstock.control.submission import Submission, submitted
from tests.docs.pages import ROOT

EXAMPLES = ROOT / "examples"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))
EVERY_DAY = {"deduplication", "online_model"}
"""The other examples run in `make test-all`."""


def programs() -> list[object]:
    return [
        pytest.param(path, id=path.stem, marks=() if path.stem in EVERY_DAY else pytest.mark.full) for path in PROGRAMS
    ]


@pytest.mark.parametrize("program", programs())
def test_an_example_prints_what_the_file_beside_it_says(
    program: Path,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"penstock.registry.dir": str(tmp_path / "registry")}
    with submitted(Submission(program, overrides=settings)):
        exit_code = run_program(program, ())
    printed, errors = capfd.readouterr()
    assert exit_code == 0, errors
    lines = sorted(printed.splitlines())
    expected = program.with_suffix(".out")
    if "PENSTOCK_RECORD_EXAMPLES" in os.environ and not expected.exists():
        expected.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert lines == sorted(expected.read_text(encoding="utf-8").splitlines())
