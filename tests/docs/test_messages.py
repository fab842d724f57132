"""Messages and tables that pages quote are those of the code."""

import re

import pytest

from penstock.cli.status_commands import STATE_COLUMNS
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import IncompatibleStateError
from penstock.testing import CHECKPOINT, Harness
from tests.docs.pages import DOCS, ROOT, blocks_of


def quoted(page: str, beginning: str) -> str:
    """The block of a page that begins like this, on one line."""
    (text,) = (block.text for block in blocks_of(DOCS / page) if block.text.startswith(beginning))
    return " ".join(text.split())


class Total(KeyedProcessFunction):
    def __init__(self, kind) -> None:
        self.kind = kind

    def open(self, ctx) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", self.kind))

    def process_element(self, value, ctx):
        self.total.update(value)
        return ()


def test_the_refusal_of_another_type_is_quoted_as_it_is() -> None:
    old = Harness.keyed(Total(Types.LONG()), key=str).feed([1, CHECKPOINT])
    with pytest.raises(IncompatibleStateError) as caught:
        Harness.keyed(Total(Types.STRING()), key=str, storage=old.storage)
    shown = quoted("reference/schema-evolution.md", "INCOMPATIBLE_STATE")
    assert shown == str(caught.value).replace("operator 'function'", "operator 'totals'")


def test_the_messages_of_two_drivers_are_quoted_as_they_are() -> None:
    source = "".join(
        re.sub(r'"\n\s+f?"', "", (ROOT / path).read_text(encoding="utf-8"))
        for path in ("penstock/checkpoint/log/job_log.py", "penstock/jobmanager/job_submission.py")
    )
    fenced = quoted("reference/faults.md", "error: attempt 3")
    assert fenced.endswith("it commits and deletes nothing more")
    assert "no longer owns the job: " in fenced and "no longer owns the job: {why}; it commits and deletes" in source
    taken = quoted("reference/faults.md", "the driver of job")
    for part in re.split(r"4f1c…|4711|host|60", taken):
        assert part in source, part


def test_the_columns_of_state_sizes_are_those_of_the_command() -> None:
    header = quoted("how-to/see-how-large-state-is.md", "OPERATOR")
    assert header.startswith(" ".join(STATE_COLUMNS))
