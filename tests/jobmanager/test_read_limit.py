"""How many files an epoch reads: from the speed of the epochs before it."""

import pytest

from penstock.common import Configuration
from penstock.jobmanager.attempt.read_limit import (
    FIRST_FILES,
    MOST_FILES,
    EpochReading,
    ReadLimit,
    effective_target_s,
    next_limit,
)
from penstock.jobmanager.settings.job_settings import JobSettings

TARGET_S = 5.0


@pytest.mark.parametrize(
    ("limit", "files", "seconds", "expected"),
    [
        (4, 4, 0.5, 16),  # much faster than the target: four times as many
        (16, 16, 2.5, 32),
        (100, 100, 4.5, 100),  # close to the target: as it is
        (100, 100, 5.9, 100),
        (100, 100, 10.0, 50),
        (100, 100, 50.0, 50),  # not less than half: one slow epoch may have another cause
        (100, 30, 0.1, 100),  # not reached: nothing is learnt
        (100, 30, 10.0, 50),
        (100, 90, 6.3, 71),
        (1, 1, 600.0, 1),  # one file is the least
        (MOST_FILES, MOST_FILES, 0.1, MOST_FILES),
        (7, 0, 0.0, 7),
        (4, 4, 0.0, 16),
    ],
)
def test_the_next_limit(limit: int, files: int, seconds: float, expected: int) -> None:
    assert next_limit(limit, EpochReading(files, seconds), TARGET_S) == expected


@pytest.mark.parametrize(("files_per_s", "overhead_s"), [(0.5, 0.3), (20.0, 0.3), (300.0, 1.0)])
def test_a_backlog_is_read_in_epochs_that_settle_at_the_target(files_per_s: float, overhead_s: float) -> None:
    limit, left, seconds = ReadLimit.of_files(TARGET_S), 100_000, []
    for _ in range(20):
        files = min(limit.count, left)
        left -= files
        seconds.append(overhead_s + files / files_per_s)
        limit.epoch_ended([0, files], seconds[-1])
    assert seconds[0] <= overhead_s + FIRST_FILES / files_per_s
    assert all(TARGET_S / 2 < taken <= 1.2 * TARGET_S for taken in seconds[7:])


def test_the_first_epoch_only_warms_up() -> None:
    limit = ReadLimit.of_files(TARGET_S)
    assert not limit.epoch_ended([FIRST_FILES], 60.0) and limit.count == FIRST_FILES
    assert limit.epoch_ended([FIRST_FILES], 60.0) and limit.count == FIRST_FILES // 2


def test_a_limit_that_was_reached_means_that_more_files_wait() -> None:
    limit = ReadLimit.of_files(TARGET_S)
    limit.epoch_ended([1, FIRST_FILES], 1.0)
    assert limit.is_reached
    limit.epoch_ended([1, FIRST_FILES - 1], 1.0)
    assert not limit.is_reached


def test_without_a_target_the_limit_never_changes_and_is_never_reached() -> None:
    limit = ReadLimit.of_files(None)
    assert not limit.is_on
    assert not any(limit.epoch_ended([FIRST_FILES], 100.0) or limit.is_reached for _ in range(3))


@pytest.mark.parametrize(
    ("target_ms", "interval_ms", "expected_s"),
    [(5_000, None, 5.0), (5_000, 60_000, 5.0), (5_000, 2_000, 2.0), (5_000, 10, 1.0), (500, 10, 0.5), (0, 10, None)],
)
def test_epochs_are_not_longer_than_the_checkpoint_interval(
    target_ms: int, interval_ms: int | None, expected_s: float | None
) -> None:
    assert effective_target_s(target_ms, interval_ms) == expected_s


def test_the_target_is_five_seconds_unless_it_is_set() -> None:
    assert JobSettings.of("job", Configuration()).epoch_target_ms == 5_000
    given = Configuration.from_dict({"penstock.epoch.target": "20 s"})
    assert JobSettings.of("job", given).epoch_target_ms == 20_000
