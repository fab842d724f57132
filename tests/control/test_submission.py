"""The flags of a run reach the program that it runs, and nobody else."""

from pathlib import Path

import pytest

from penstock.control.submission import Submission, current_submission, submitted


def test_there_is_a_submission_only_while_a_program_runs() -> None:
    assert current_submission() is None
    submission = Submission(job_file=Path("job.py"), parallelism=3)
    with pytest.raises(KeyError), submitted(submission):
        assert current_submission() is submission
        raise KeyError
    assert current_submission() is None
