"""What a job starts from, by its configuration and by flags."""

from pathlib import Path

import pytest

from penstock.control.submission import Submission, submitted
from penstock.datastream.program_settings import effective_configuration
from penstock.errors import ConfigurationError
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.jobmanager.settings.start_options import start_options, start_warnings
from penstock.model.configuration import Configuration


def chosen(settings: dict[str, str]) -> StartOptions:
    return start_options(effective_configuration(Configuration.from_dict(settings)))


def test_o8_without_a_path_a_job_starts_from_nothing() -> None:
    assert chosen({}) == StartOptions(None, allow_non_restored=False, claim=False)


@pytest.mark.parametrize(
    "names",
    [
        (
            "execution.state-recovery.path",
            "execution.state-recovery.ignore-unclaimed-state",
            "execution.state-recovery.claim-mode",
        ),
        (
            "execution.savepoint.path",
            "execution.savepoint.ignore-unclaimed-state",
            "execution.savepoint-restore-mode",
        ),
    ],
)
def test_o5_o8_o9_the_keys_and_their_old_names(names: tuple[str, str, str]) -> None:
    path, ignore, mode = names
    found = chosen({path: "s3://bucket/savepoint", ignore: "true", mode: "CLAIM"})
    assert found == StartOptions("s3://bucket/savepoint", allow_non_restored=True, claim=True)


@pytest.mark.parametrize("mode", ["no_claim", "NO-CLAIM", "legacy"])
def test_o9_other_modes_leave_the_snapshot_to_its_owner(mode: str) -> None:
    assert not chosen({"execution.state-recovery.claim-mode": mode}).claim
    warnings = start_warnings(Configuration.from_dict({"execution.state-recovery.claim-mode": mode}))
    assert len(warnings) == (mode == "legacy")
    with pytest.raises(ConfigurationError, match="claim-mode"):
        chosen({"execution.state-recovery.claim-mode": "mine"})


def test_o8_flags_win_over_the_program() -> None:
    flags = Submission(Path("job.py"), savepoint_path="b", allow_non_restored=True, claim_mode="claim")
    with submitted(flags):
        found = chosen({"execution.state-recovery.path": "a", "execution.state-recovery.claim-mode": "no-claim"})
    assert found == StartOptions("b", allow_non_restored=True, claim=True)
