"""The tokens of a job's control server when several drivers start the job together (reliability F19)."""

from pathlib import Path

import pytest

from penstock.control.tokens import ADMIN_FILE, READ_FILE, read_token
from penstock.jobmanager.control_server import JobControl
from penstock.rest.rest_settings import RestSettings
from tests.jobmanager.fake_attempts import CHECKPOINTS, JOB_ID, Place
from tests.waiting import wait_until


def open_control(folder: Path) -> JobControl:
    control = JobControl.open(RestSettings(), folder)
    assert control is not None
    return control


def tokens_in(folder: Path) -> list[str]:
    return [read_token(folder / name) for name in (ADMIN_FILE, READ_FILE)]


def end_without_a_job(control: JobControl) -> None:
    with pytest.raises(KeyboardInterrupt), control.closed_on_error():
        raise KeyboardInterrupt


def test_f19_the_driver_that_wins_the_job_keeps_its_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path, monkeypatch)
    settings = place.settings(**CHECKPOINTS)
    folder = settings.registry_dir / JOB_ID
    winner = open_control(folder)
    own = tokens_in(folder)
    loser = open_control(folder)  # starts at the same time, and comes second to the folder, not to the claim
    assert tokens_in(folder) != own
    job = place.job(settings, claimed=winner.claimed)
    wait_until(lambda: place.attempts and place.attempts[-1].started.is_set())
    assert tokens_in(folder) == own
    end_without_a_job(loser)
    assert tokens_in(folder) == own
    job.cancel()
    end_without_a_job(winner)
    assert not (folder / ADMIN_FILE).exists() and not (folder / READ_FILE).exists()
