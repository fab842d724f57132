"""The settings of a program under `penstock run`: flags about the start win over the program, the others do not."""

from pathlib import Path

import pytest

from penstock.common import Configuration
from penstock.control.submission import Submission, submitted
from penstock.datastream import EmbeddedRocksDBStateBackend
from penstock.datastream.program_settings import configuration_notes, job_settings
from penstock.datastream.state_choices import StateChoices


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_flags_about_the_start_win_over_the_program() -> None:
    program = Configuration.from_dict({"execution.savepoint.path": "mine", "parallelism.default": "3"})
    flags = Submission(
        Path("job.py"), parallelism=2, savepoint_path="yours", allow_non_restored=True, claim_mode="no_claim"
    )
    with submitted(flags):
        found = job_settings(program, StateChoices())
    assert found.configuration.to_dict() == {
        "execution.state-recovery.path": "yours",
        "execution.state-recovery.ignore-unclaimed-state": "true",
        "execution.state-recovery.claim-mode": "no_claim",
        "parallelism.default": "3",
    }
    assert found.origins == {
        "execution.state-recovery.path": "-s",
        "execution.state-recovery.ignore-unclaimed-state": "-n",
        "execution.state-recovery.claim-mode": "-cm",
        "parallelism.default": "the program",
    }


def test_p_wins_over_d_and_d_over_files(working_folder: Path) -> None:
    (working_folder / "penstock.yaml").write_text("parallelism.default: 4\nrest.port: 4\n", encoding="utf-8")
    with submitted(Submission(Path("job.py"), parallelism=2, overrides={"parallelism.default": "3", "rest.port": "3"})):
        found = job_settings(Configuration(), StateChoices())
    assert found.configuration.to_dict() == {"parallelism.default": "2", "rest.port": "3"}
    assert found.origins == {"parallelism.default": "-p", "rest.port": "-D"}


def test_objects_that_the_program_sets_win_over_all_settings() -> None:
    choices = StateChoices(backend=EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=False))
    with submitted(Submission(Path("job.py"), overrides={"state.backend.type": "hashmap", "rest.port": "3"})):
        found = job_settings(Configuration(), choices)
    assert found.configuration.to_dict() == {
        "state.backend.type": "rocksdb",
        "rest.port": "3",
        "execution.checkpointing.incremental": "false",
    }
    assert found.origins == {
        "state.backend.type": "the program",
        "rest.port": "-D",
        "execution.checkpointing.incremental": "the program",
    }


def test_old_names_and_keys_without_effect_are_noted_wherever_they_come_from(working_folder: Path) -> None:
    (working_folder / "penstock.yaml").write_text("state.checkpoints.dir: /x\n", encoding="utf-8")
    with submitted(Submission(Path("job.py"), overrides={"python.executable": "python4"})):
        notes = configuration_notes(Configuration.from_dict({"state.backend.incremental": "true"}), StateChoices())
    assert notes == [
        "state.checkpoints.dir is an old name; it sets execution.checkpointing.dir",
        "state.backend.incremental is an old name; it sets execution.checkpointing.incremental",
        "python.executable has no effect here: set PYSPARK_PYTHON or spark.pyspark.python",
    ]
