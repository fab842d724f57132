"""PyFlink's own example programs run unchanged, and give what PyFlink gives.

`pyflink_examples.json` is what PyFlink 2.3.0 printed. The programs are in its wheel, which pip downloads.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from scripts.pyflink_names import fetch

pytestmark = [pytest.mark.process, pytest.mark.full]

RECORDED: dict[str, list[str]] = json.loads(Path(__file__).with_name("pyflink_examples.json").read_text("utf-8"))
FOLDER = "pyflink/examples/datastream/"
OF_THE_COMMAND = re.compile(r"Job (\w{32} \w+|has been submitted with JobID \w{32})$")
ONE_SUBTASK = ("basic_operations", "word_count", "windowing/")
"""These set the parallelism to 1, so that the order is that of PyFlink too; but batch mode has an order of its own."""


@pytest.mark.parametrize("name", RECORDED)
def test_an_example_of_pyflink_gives_what_pyflink_gives(name: str, tmp_path: Path) -> None:
    with ZipFile(fetch()) as wheel:
        program = tmp_path / f"{Path(name).name}.py"
        program.write_bytes(wheel.read(f"{FOLDER}{name}.py"))
    command = [sys.executable, "-m", "penstock", "run", "--pyflink", "-Dspark.master=local[2]", str(program)]
    run = subprocess.run(
        command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=240, check=False
    )
    assert run.returncode == 0, run.stderr
    lines = [line for line in run.stdout.splitlines() if not OF_THE_COMMAND.match(line)]
    if name.startswith(ONE_SUBTASK) and name != "word_count":
        assert lines == RECORDED[name]
    else:
        assert comparable(lines) == comparable(RECORDED[name])


def test_the_examples_are_those_that_need_neither_the_table_api_nor_a_jar() -> None:
    with ZipFile(fetch()) as wheel:
        programs = {
            name.removeprefix(FOLDER).removesuffix(".py"): wheel.read(name).decode()
            for name in wheel.namelist()
            if name.startswith(FOLDER) and name.endswith(".py")
        }
    needs_table = {name for name, text in programs.items() if "pyflink.table" in text}
    needs_jar = {name for name in programs if name.startswith("connectors/")}
    assert needs_table == {"asyncio/remote_model_inference", "streaming_word_count"}
    assert programs.keys() - needs_table - needs_jar == RECORDED.keys()


def comparable(lines: list[str]) -> list[str]:
    """Sorted, without the subtask. PyFlink adds up a FLOAT state with 64 bits until it is stored, and we with 32."""
    return sorted(rounded(re.sub(r"^\d+> ", "", line)) for line in lines)


def rounded(line: str) -> str:
    return re.sub(r"\d+\.\d+", lambda found: f"{float(found.group()):.3f}", line)
