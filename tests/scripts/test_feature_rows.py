"""The tables of rows and tests in docs/internals."""

from pathlib import Path

import pytest

from tests.loading import load_script

rows = load_script("feature_rows")
ALL_ROWS = [row.id for row in rows.read_rows(rows.FEATURES) if row.needs_test]


def test_the_committed_table_is_current_and_every_row_has_a_test(capsys: pytest.CaptureFixture[str]) -> None:
    assert rows.main(["--check"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("test_k7_one_failure_more", ["K7"]),
        ("test_l6_m6_at_least_once", ["L6", "M6"]),
        ("test_r4_fenced", ["R4"]),
        ("test_bm05_paths", []),
        ("test_the_k7_of_another", []),
        ("test_k7", []),
    ],
)
def test_a_test_shows_the_rows_that_its_name_begins_with(name: str, ids: list[str]) -> None:
    assert rows.ids_of(name) == ids


def test_a_row_without_a_test_fails_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tests").mkdir()
    ids = "_".join(row.lower() for row in ALL_ROWS if row != "M5")
    (tmp_path / "tests" / "test_all.py").write_text(f"def test_{ids}_and_more(): ...\n", encoding="utf-8")
    monkeypatch.setattr(rows, "ROOT", tmp_path)
    assert rows.main([]) == 1
    assert "no test shows M5" in capsys.readouterr().err


def test_the_table_is_written_between_its_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tests").mkdir()
    ids = "_".join(row.lower() for row in ALL_ROWS)
    (tmp_path / "tests" / "test_all.py").write_text(f"def test_{ids}_and_more(): ...\n", encoding="utf-8")
    for name in rows.PAGES:
        (tmp_path / name).write_text(f"before\n{rows.BEGIN}old\n{rows.END}after\n", encoding="utf-8")
    page = tmp_path / "tests-of-checkpointing.md"
    monkeypatch.setattr(rows, "ROOT", tmp_path)
    monkeypatch.setattr(rows, "INTERNALS", tmp_path)
    assert rows.main(["--check"]) == 1
    assert "tests-of-checkpointing.md is not current" in capsys.readouterr().err
    assert rows.main([]) == rows.main(["--check"]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{rows.BEGIN}| row | feature |") and text.endswith(f"{rows.END}after\n")
    assert f"| M5 | failed checkpoints | [test_{ids}_and_more](../../tests/test_all.py) |" in text


def test_rows_that_are_not_there_yet_need_no_test_and_are_not_listed() -> None:
    later = rows.Row("P9", "later", "Something.", "not yet")
    assert not later.needs_test
    assert "P9" not in rows.table([later], {})
