"""The table of PyFlink's names is current, and says why a name is absent."""

import pytest

from scripts import pyflink_names
from scripts.pyflink_names import Name, compare, compare_all, difference, load, module_names, top_absent

CONNECTORS = ("cassandra", "dynamic_kafka", "elasticsearch", "kinesis", "pulsar", "rabbitmq")
"""Modules of connectors that are projects of their own."""
SOURCE = """
__all__ = ["Shown", "helper", "Other"]
from somewhere import Other

class Shown(object):
    RED = 1
    _hidden = 2
    def paint(self, colour: str, *more): pass
    @property
    def size(self): pass
    class Inner:
        def deep(self): pass

class Hidden: pass
def helper(a, b=1): pass
"""


@pytest.mark.full
def test_the_page_is_current() -> None:
    assert pyflink_names.main(["--check"]) == 0


def test_every_absent_name_has_a_reason_and_there_are_few() -> None:
    found = compare_all(load())
    absent = top_absent(found)
    assert not [c.name.path for c in found if c.status == "absent" and not c.reason]
    assert len(absent) <= 60
    assert f"Absent are {len(absent)} names" in (pyflink_names.ROOT / "docs" / "coming-from-pyflink.md").read_text()
    assert {c.name.path for c in absent} >= {f"datastream.connectors.{name}" for name in CONNECTORS}


def test_the_names_of_a_module_are_read_without_importing_it() -> None:
    found = {(name.path, name.kind, name.parameters) for name in module_names("pyflink/common/a.py", SOURCE)}
    assert found == {
        ("common.a", "module", ()),
        ("common.a.Shown", "class", ()),
        ("common.a.Shown.RED", "value", ()),
        ("common.a.Shown.paint", "function", ("colour", "*more")),
        ("common.a.Shown.size", "value", ()),
        ("common.a.Shown.Inner", "class", ()),
        ("common.a.Shown.Inner.deep", "function", ()),
        ("common.a.helper", "function", ("a", "b")),
        ("common.a.Other", "export", ()),
    }


def test_a_name_is_the_same_different_or_absent() -> None:
    assert compare(Name("common.time.Time.seconds", "function", ("seconds",))).status == "same"
    assert compare(Name("common.job_status.JobStatus.is_terminal_state", "function")).status == "same"
    found = compare(Name("common.time.Time.seconds", "function", ("other",)))
    assert (found.status, found.reason) == ("different", "takes `(seconds)`, in PyFlink `(other)`")
    assert compare(Name("common.time.Nothing", "class")).status == "absent"
    assert difference(Name("x", "class"), 5) == "a int"
