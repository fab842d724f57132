"""Uids: explicit, derived, and unique."""

from typing import Any

import pytest

from penstock.errors import UsageError
from penstock.graph.stream_graph import SourceSpec
from tests.graph.programs import ORDERS, Program


def uids(program: Program, **settings: Any) -> list[str]:
    job = program.build(**settings)
    return [uid for stage in job.stages for uid in stage.uids]


def totals(extra_map: bool = False, uid: str | None = None) -> Program:
    p = Program()
    stream = p.source()
    if extra_map:
        stream = p.filter(stream)
    process = p.process(p.key_by(stream, "customer"))
    process.uid = uid
    p.print(process)
    return p


def test_the_same_program_has_the_same_derived_uids():
    assert uids(totals()) == uids(totals())
    assert all(uid for uid in uids(totals()))


def test_derived_uids_do_not_depend_on_names_for_people_or_parallelism():
    renamed = totals()
    for node in renamed.graph.nodes:
        node.name = "another name"
        node.parallelism = 3
    assert uids(renamed) == uids(totals())


def test_o2_a_derived_uid_changes_with_the_operators_before_it():
    assert uids(totals())[0] not in uids(totals(extra_map=True))


def test_o7_an_explicit_uid_survives_inserted_operators_and_shields_what_follows():
    before, after = uids(totals(uid="total")), uids(totals(extra_map=True, uid="total"))
    assert before[0] == "total" and "total" in after
    assert before[1] == after[-1]


def test_derived_uids_do_not_depend_on_branches_beside_them():
    p = totals()
    p.map(p.source("other"))
    assert uids(totals()) == uids(p)[:2]


def test_equal_operators_side_by_side_have_different_uids():
    p = Program()
    source = p.source()
    p.map(source)
    p.map(source)
    assert len(set(uids(p))) == 2


def test_a_derived_uid_says_what_the_operator_is():
    assert uids(totals())[0].startswith("keyed-process-count-")


def test_o1_two_operators_with_one_uid_are_refused():
    p = totals(uid="x")
    p.print(p.source("other")).uid = "x"
    with pytest.raises(
        UsageError, match='Hash collision on user-specified ID "x".*non-unique ID.*KEYED PROCESS'
    ) as caught:
        p.build()
    assert str(caught.value).count("\n  created at ") == 2


def test_a_source_and_an_operator_cannot_share_a_uid():
    p = totals(uid="x")
    p.graph[0].uid = "x"
    with pytest.raises(UsageError, match="Hash collision"):
        p.build()


def test_o3_a_uid_hash_is_the_uid_of_an_operator_that_had_none():
    derived = uids(totals())[0]
    p = totals(extra_map=True)
    p.graph[3].uid_hash = derived
    assert derived in uids(p)


def test_a_stateful_operator_without_uid_is_warned_about():
    warning = totals().build().warnings[-1]
    assert "operator 'KEYED PROCESS' (" in warning and "programs.py:" in warning and ".uid(" in warning
    assert not any("operator" in text for text in totals(uid="total").build().warnings)


def test_a_source_without_uid_is_warned_about():
    p = Program()
    source = p.source()
    p.map(source)
    (warning,) = p.build().warnings
    assert "source 'orders' (" in warning and "programs.py:" in warning and "its position is not found" in warning
    source.uid = "orders"
    assert p.build().warnings == ()


def test_a_collection_needs_no_uid():
    p = Program()
    p.map(p.graph.add("source", "numbers", (), SourceSpec("collection", object(), ORDERS, None, True), ORDERS))
    assert p.build().warnings == ()


def test_a_keyed_lambda_cannot_have_state_and_is_not_warned_about():
    p = Program()
    p.keyed_map(p.key_by(p.source(), "customer"), lambda value: value)
    assert not any("operator" in warning for warning in p.build().warnings)


def test_a_reduce_without_uid_is_warned_about():
    p = Program()
    p.reduce(p.key_by(p.source(), "customer"))
    assert sum("operator 'Reduce'" in warning for warning in p.build().warnings) == 1


def test_without_generated_uids_every_operator_needs_one():
    p = totals(uid="total")
    with pytest.raises(UsageError, match="no UID or hash has been assigned to operator 'orders'"):
        p.build(generate_uids=False)
    p.graph[0].uid, p.graph[3].uid = "orders", "out"
    assert uids(p, generate_uids=False) == ["total", "out"]
