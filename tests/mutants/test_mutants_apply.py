"""The mutants can still be planted: the text that they change is there. `make mutants` lets the tests kill them."""

import shutil
from pathlib import Path

import pytest

from tests.mutants.__main__ import ROOT, plant
from tests.mutants.catalogue import MUTANTS, PLANNED, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_planted_and_is_python(mutant: Mutant, tmp_path: Path) -> None:
    for edit in mutant.edits:
        target = tmp_path / edit.path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / edit.path, target)
    plant(mutant, tmp_path)
    for edit in mutant.edits:
        changed = (tmp_path / edit.path).read_text(encoding="utf-8")
        assert changed != (ROOT / edit.path).read_text(encoding="utf-8")
        compile(changed, edit.path, "exec")


def test_all_fifteen_of_the_plan_are_there_and_each_has_a_killer() -> None:
    assert [mutant.name for mutant in PLANNED] == [f"M{number}" for number in range(1, 16)]
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names) and all(mutant.killers for mutant in MUTANTS)


def test_the_tests_that_should_kill_them_exist() -> None:
    for killer in (killer for mutant in MUTANTS for killer in mutant.killers):
        kind, *rest = killer.split()
        assert kind == "sim" or all((ROOT / path).is_file() for path in (kind, *rest)), killer
