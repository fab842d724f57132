"""Commands that the documentation shows with their output print that, on snapshots that the harness takes."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.cli.program import load_program
from penstock.common import Row
from penstock.storage.local import LocalStorage
from penstock.testing import CHECKPOINT, Harness
from penstock.testing.harness_options import HarnessOptions
from tests.cli.test_control_commands import Commands
from tests.docs.pages import ROOT, all_blocks, blocks_of
from tests.docs.test_examples import PROGRAMS
from tests.rest.fake_job import end_savepoint

FIRST, SECOND = "savepoint-4f1c2a-0b1c2d3e4f50", "savepoint-4f1c2a-9d8e7f6a5b4c"
ON_SNAPSHOTS = ["docs/how-to/look-into-state.md", "docs/how-to/start-from-a-savepoint.md"]
ON_A_JOB = ["docs/how-to/take-a-savepoint.md"]
PROGRAM = """
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor


class RunningTotal(KeyedProcessFunction):
    def open(self, ctx):
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.DOUBLE()))
        self.items = ctx.get_map_state(MapStateDescriptor("items", Types.STRING(), {number}))
        {more}

    def process_element(self, order, ctx):
        self.total.update((self.total.value() or 0.0) + order.amount)
        self.items.put(order.product, (self.items.get(order.product) or 0) + 1)
        yield order.customer, self.total.value()


env = StreamExecutionEnvironment.get_execution_environment(){settings}
orders = env.from_collection([("ada", "tea", 2.0)], "customer string, product string, amount double").uid("orders")
totals = orders.key_by("customer").process(RunningTotal(), output_type="customer string, total double")
totals.uid("running-total").print()
env.execute("totals")
"""
SEEN = 'self.seen = ctx.get_list_state(ListStateDescriptor("seen", Types.STRING()))'
_VARIES = re.compile(
    r"file://\S*/(?=savepoints/)|/\S*/(?=savepoint-)|(?<=savepoint-)[0-9a-f]{6}-[0-9a-f]{12}|[0-9a-f]{32}|4f1c2a…"
)
_SIZE = re.compile(r"\b\d+(?:\.\d+)? (?:B|kB|MB)")


def transcripts(page: str) -> Iterator[tuple[str, str]]:
    """(command, what the page shows below it), of every command that is shown with output."""
    for block in blocks_of(ROOT / page):
        if block.language == "console":
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                if output.strip():
                    yield command, output


def plain(text: str) -> list[str]:
    """Without paths, ids and sizes, which differ, and without the width of columns, which follows from them."""
    return [re.sub(r" {2,}", "  ", _SIZE.sub("…", _VARIES.sub("…", line))).rstrip() for line in text.splitlines()]


def order(customer: str, product: str, amount: float) -> Row:
    return Row(customer=customer, product=product, amount=amount)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two savepoints of a job, between which two orders came, and a changed program."""
    folder = tmp_path_factory.mktemp("shown")
    first, changed = folder / "totals.py", folder / "totals_v2.py"
    first.write_text(PROGRAM.format(number="Types.INT()", more="", settings=".set_parallelism(2)"), encoding="utf-8")
    changed.write_text(PROGRAM.format(number="Types.LONG()", more=SEEN, settings=""), encoding="utf-8")
    harness = Harness(load_program(first, []).graph, HarnessOptions(storage=LocalStorage(folder / "job")))
    harness.feed([order("ada", "tea", 2.0), order("bob", "jam", 5.5), order("ada", "pot", 3.0), CHECKPOINT])
    Path(harness.savepoint(folder / "savepoints")).rename(folder / "savepoints" / FIRST)
    harness.feed([order("ada", "tea", 1.0), order("eve", "tea", 2.0)])
    Path(harness.savepoint(folder / "savepoints")).rename(folder / "savepoints" / SECOND)
    return folder


@pytest.mark.parametrize("page", ON_SNAPSHOTS)
def test_commands_on_snapshots_print_what_is_shown(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    shown = list(transcripts(page))
    assert shown
    for command, expected in shown:
        capsys.readouterr()
        assert main(shlex.split(command)[1:]) == 0, command
        assert plain(capsys.readouterr().out) == plain(expected), command


@pytest.mark.parametrize("page", ON_A_JOB)
def test_commands_on_a_job_print_what_is_shown(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = list(transcripts(page))
    assert shown
    for number, (command, expected) in enumerate(shown):
        commands = Commands(tmp_path / str(number))
        answer = commands.ends_as("FINISHED") if " stop " in command else end_savepoint
        capsys.readouterr()
        assert commands.run_while(answer, *shlex.split(command)[1:]) == 0, command
        commands.server.close()
        assert plain(capsys.readouterr().out) == plain(expected), command


def test_output_of_every_other_page_is_compared_elsewhere() -> None:
    pages = {block.page for block in all_blocks()}
    assert {page for page in pages if list(transcripts(page))} <= {*ON_SNAPSHOTS, *ON_A_JOB, *PROGRAMS}
