"""The parts of `make test-all`: all of them run, and the end says what to run again."""

from collections.abc import Sequence

import pytest

from tests.loading import load_script

all_tests = load_script("all_tests")
tiers = load_script("tiers")


def run(monkeypatch: pytest.MonkeyPatch, failing: Sequence[str], *names: str) -> tuple[int, list[str]]:
    """The exit code, and the parts that have run."""
    ran: list[str] = []

    def run_part(name: str) -> object:
        ran.append(name)
        return all_tests.Result(name, int(name in failing), 1.0)

    monkeypatch.setattr(all_tests, "run_part", run_part)
    return all_tests.main(names), ran


def test_every_part_runs_whatever_the_others_come_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, ran = run(monkeypatch, ["sim", "faults"])
    assert code == 1 and ran == list(all_tests.PARTS)
    lines = capsys.readouterr().out.splitlines()
    assert "part spark: passed, 1 s" in lines and "part sim: FAILED with exit code 1, 1 s" in lines
    assert lines[-1] == 'run what failed again: make test-all PARTS="sim faults"'


def test_some_parts_run_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, [], "mutants", "sim") == (0, ["mutants", "sim"])
    assert capsys.readouterr().out.splitlines()[-1] == "all parts passed"


def test_an_unknown_part_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, [], "sim", "everything") == (2, [])
    assert "unit-coverage, sim, spark" in capsys.readouterr().err


def test_no_tier_is_left_out() -> None:
    """But for clusters, which need a machine of their own."""
    named = {word for command in all_tests.PARTS.values() for word in command}
    assert set(tiers.TIERS) - named == {"cluster"}
