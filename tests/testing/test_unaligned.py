"""Unaligned checkpoints (features L4, L5, K10, K11; PROTOCOL R13): rows in flight, in versions and in checkpoints."""

import errno
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import failpoint
from penstock.checkpoint.checkpoint_schedule import MIN_WORK_MS, CheckpointSchedule
from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.checkpoint.restore.program_fit import require_same_chains
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.errors import CheckpointCorruptError, CheckpointError, CheckpointFailedError
from penstock.failpoint import Failpoint
from penstock.jobmanager.attempt.recovery import program_outline
from penstock.model.descriptors import ListStateDescriptor
from penstock.model.functions import RuntimeContext
from penstock.model.snapshot import InlineLimits
from penstock.runtime import intake
from penstock.runtime.snapshots import snapshot_writer, spool
from penstock.testing import CHECKPOINT, CRASH, Harness, ManualClock, MemorySink
from penstock.testing.graphs import FunctionProgram, function_graph
from tests.sim.job import Sinks, large_graph

KEYS = "abcdefgh"


class Seen(KeyedProcessFunction):
    """Keeps every number of a key in its order."""

    def open(self, ctx: RuntimeContext) -> None:
        self.numbers = ctx.get_list_state(ListStateDescriptor("numbers", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.numbers.add(row[1])
        yield row[0], row[1]


class Ticking(ManualClock):
    """Each look at the monotonic clock takes a millisecond."""

    def __init__(self) -> None:
        super().__init__()
        self.ticks = 0

    def monotonic_s(self) -> float:
        self.ticks += 1
        return super().monotonic_s() + self.ticks / 1000


def limits(*first: int | None) -> Callable[[], int | None]:
    """The limits of the first epochs; the others have none."""
    given = itertools.chain(first, itertools.repeat(None))
    return lambda: next(given)


def seen(**settings: Any) -> Harness:
    return Harness.keyed(Seen(), key=lambda row: row[0], **settings)


def rows(count: int) -> list[tuple[str, int]]:
    return [(KEYS[n * 7 % len(KEYS)], n) for n in range(count)]


def kept(harness: Harness) -> dict[str, list[int]]:
    return {key: harness.state("numbers", key) or [] for key in KEYS}


def expected(count: int) -> dict[str, list[int]]:
    return {key: [n for other, n in rows(count) if other == key] for key in KEYS}


def test_l5_rows_that_were_overtaken_are_in_the_checkpoint_and_come_first_after_a_crash() -> None:
    sink = MemorySink()
    harness = seen(sink=sink, parallelism=2, spool_after=limits(0))
    with pytest.raises(StopHereError):
        harness_until_checkpoint(harness, rows(20))
    manifest = harness.manifest
    assert manifest is not None and sum(bool(part.spool) for part in manifest.subtasks) == 2
    assert kept(harness) == {key: [] for key in KEYS}  # nothing was worked on before the barrier
    harness.crash()
    assert kept(harness) == expected(20)
    harness.finish()
    assert sorted(sink.rows, key=lambda row: row[1]) == rows(20)


class StopHereError(Exception):
    pass


def harness_until_checkpoint(harness: Harness, records: list[Any]) -> None:
    """Feed records and a checkpoint, and stop before an epoch works on what waits."""
    original = harness._run_empty_epoch

    def stop() -> None:
        harness._run_empty_epoch = original  # type: ignore[method-assign]
        raise StopHereError

    harness._run_empty_epoch = stop  # type: ignore[method-assign]
    harness.feed([*records, CHECKPOINT])


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 3), (3, 3)])
def test_l5_rows_in_flight_follow_their_keys_to_another_parallelism(before: int, after: int) -> None:
    harness = seen(parallelism=before, spool_after=limits(0))
    with pytest.raises(StopHereError):
        harness_until_checkpoint(harness, rows(40))
    harness.rescale(after)
    assert kept(harness) == expected(40)


def test_l5_rows_in_flight_follow_their_keys_to_another_number_of_key_groups() -> None:
    harness = seen(parallelism=3, max_parallelism=12, spool_after=limits(0))
    with pytest.raises(StopHereError):
        harness_until_checkpoint(harness, rows(40))
    harness.rescale(2, max_parallelism=7)
    assert kept(harness) == expected(40)


@pytest.mark.parametrize("seed", range(20))
def test_l5_with_limits_and_crashes_anywhere_each_row_counts_once_and_in_order(seed: int) -> None:
    chance = random.Random(seed)
    items: list[Any] = []
    for row in rows(60):
        items.append(row)
        if chance.random() < 0.2:
            items.append(chance.choice((CHECKPOINT, CHECKPOINT, CRASH)))
    harness = seen(
        seed=seed,
        parallelism=chance.choice((1, 2, 3)),
        clock=Ticking(),
        spool_after=lambda: chance.choice((0, 3, 8, 20, None)),
        lost_after=lambda tries: chance.choice((None, None, 1, 2)) if tries < 3 else None,
    )
    assert kept(harness.feed(items)) == expected(60)
    assert kept(harness.finish()) == expected(60)


def test_l5_an_epoch_takes_a_part_of_a_batch_and_goes_on_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "FIRST_PORTION", 1)
    monkeypatch.setattr(intake, "MAX_PORTION", 1)
    taken: list[int] = []
    harness = seen(clock=Ticking(), spool_after=limits(0, *[4] * 50))
    original = harness._run_empty_epoch

    def note() -> None:
        original()
        taken.append(sum(len(numbers) for numbers in kept(harness).values()))

    harness._run_empty_epoch = note  # type: ignore[method-assign]
    harness.feed(rows(12))
    assert kept(harness) == expected(12)
    assert len(taken) > 3 and taken == sorted(taken) and taken[0] not in (0, 12)
    assert any(count % 3 for count in taken)  # batches have three rows


def test_l5_a_run_that_is_lost_leaves_what_waits_as_it_was() -> None:
    losses = iter([None, 0, 0])
    harness = seen(spool_after=limits(0), lost_after=lambda tries: next(losses, None))
    harness.feed(rows(10))
    assert harness.lost_tasks == 2 and kept(harness) == expected(10)


@pytest.mark.parametrize("place", ["C27.before", "C27.after"])
def test_l5_a_crash_while_rows_are_spooled_loses_none(place: str) -> None:
    point = Failpoint(place, "raise")
    failpoint.arm(point)
    try:
        harness = seen(spool_after=limits(0, 0)).feed([*rows(10), CHECKPOINT])
    finally:
        failpoint.disarm()
    assert point.seen and harness.crashes == 1 and kept(harness) == expected(10)


def test_l5_later_checkpoints_refer_to_the_rows_that_an_earlier_one_has_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot_writer, "INLINE_LIMIT_BYTES", 0)
    monkeypatch.setattr(intake, "MAX_PORTION", 1)
    monkeypatch.setattr(intake, "FIRST_PORTION", 1)
    harness = seen(clock=Ticking(), spool_after=limits(0, 4, 4))
    stopped = iter(range(2))
    original = harness._run_empty_epoch

    def with_checkpoint() -> None:
        if next(stopped, None) is None:
            raise StopHereError
        harness._epoch([], forced=True)

    harness._run_empty_epoch = with_checkpoint  # type: ignore[method-assign]
    with pytest.raises(StopHereError):
        harness.feed([*rows(30), CHECKPOINT])
    harness._run_empty_epoch = original  # type: ignore[method-assign]
    manifest = harness.manifest
    assert manifest is not None and manifest.checkpoint_id == 3
    (part,) = manifest.subtasks
    assert [file.path.split("-")[1] for file in part.spool] == ["1"]  # written for checkpoint 1
    assert 0 < part.spool_skip < 30
    assert kept(harness.crash()) == expected(30)


def test_l5_h1_rows_in_flight_of_several_epochs_count_together_for_the_jobmanager() -> None:
    def harness_of(limit: int) -> Harness:
        harness = seen(spool_after=lambda: 0, limits=InlineLimits(max_state_bytes=limit))
        harness._work_off_spools = lambda: None  # type: ignore[method-assign]
        return harness.feed([*rows(30), CHECKPOINT])

    manifest = harness_of(1 << 20).manifest
    assert manifest is not None
    size = sum(file.size for file in manifest.subtasks[0].spool)
    assert size > 0
    harness = harness_of(size * 3 // 2)
    with pytest.raises(CheckpointFailedError, match="larger than the maximum permitted memory-backed state"):
        harness.feed([*rows(30), CHECKPOINT])


def test_l5_a_disk_that_is_full_makes_an_epoch_aligned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left: list[Path] = []

    def write_some(path: Path, data: bytes) -> int:
        left.append(path)
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spool, "HELD_BYTES", 0)
    monkeypatch.setattr(spool, "SEGMENT_BYTES", 0)
    monkeypatch.setattr(Path, "write_bytes", write_some)
    harness = seen(spool_after=limits(0))
    harness._run_empty_epoch = lambda: pytest.fail("nothing waits")  # type: ignore[method-assign]
    assert kept(harness.feed(rows(30))) == expected(30)
    assert "No space left on device" in caplog.text
    assert left and not any(path.exists() for path in left)


def test_l5_more_rows_than_the_spool_takes_are_worked_on_in_their_epoch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = seen(spool_after=limits(0))
    (subtask,) = harness._host.subtasks()
    subtask.spool._max_bytes = 100
    harness._run_empty_epoch = lambda: pytest.fail("nothing waits")  # type: ignore[method-assign]
    harness.feed(rows(30))
    assert kept(harness) == expected(30)
    assert "penstock.unaligned.max-spool" in caplog.text


def test_l5_another_program_is_refused_while_rows_are_in_flight() -> None:
    harness = seen(spool_after=limits(0))
    with pytest.raises(StopHereError):
        harness_until_checkpoint(harness, rows(10))
    manifest = harness.manifest
    assert manifest is not None
    same = program_outline(function_graph(FunctionProgram(Seen(), lambda row: row[0])))
    require_same_chains(manifest, same.chains)
    with pytest.raises(CheckpointError, match=r"rows in flight to the operators \['function'"):
        require_same_chains(manifest, program_outline(large_graph(1, Sinks())).chains)


def test_l5_rows_in_flight_of_another_type_are_refused() -> None:
    harness = seen(spool_after=limits(0))
    with pytest.raises(StopHereError):
        harness_until_checkpoint(harness, rows(10))
    assert harness.manifest is not None
    (file,) = harness.manifest.subtasks[0].spool
    other = function_graph(FunctionProgram(Seen(), lambda row: row[0], key_type=Types.LONG()))
    with pytest.raises(CheckpointError, match="another input"):
        spool.Spool(other.stages[0], Path("unused"), 100).restore(file.inline or b"", 0, "chk-1/rows")
    with pytest.raises(CheckpointCorruptError, match="chk-1/rows"):
        spool.Spool(other.stages[0], Path("unused"), 100).restore(b"nothing", 0, "chk-1/rows")


def test_l4_l5_the_figures_say_how_a_barrier_passed() -> None:
    harness = seen(clock=Ticking(), spool_after=limits(0, None))
    with pytest.raises(StopHereError):
        harness_until_checkpoint(harness, rows(12))
    unaligned = harness._attempt.coordinator.history()[-1]
    assert unaligned.checkpoint_type == "UNALIGNED_CHECKPOINT"
    assert sum(part.figures.in_flight_rows for part in unaligned.parts) == 12
    assert unaligned.persisted_bytes > 0
    harness.feed([CHECKPOINT])
    aligned = harness._attempt.coordinator.history()[-1]
    assert aligned.checkpoint_type == "CHECKPOINT" and aligned.persisted_bytes == 0
    assert aligned.alignment_ms >= 0 and len(aligned.parts) == 1


def settings(**given: Any) -> CheckpointSettings:
    return CheckpointSettings(1000, unaligned=True, **given)


def test_k10_without_unaligned_no_epoch_has_a_limit() -> None:
    schedule = CheckpointSchedule(CheckpointSettings(1000), ManualClock())
    assert schedule.spool_after_ms(0, checkpoint=True, waiting=False) is None
    assert schedule.spool_after_ms(0, checkpoint=False, waiting=True) is None


def test_k11_the_barrier_overtakes_at_once_or_after_the_aligned_timeout() -> None:
    clock = ManualClock()
    assert CheckpointSchedule(settings(), clock).spool_after_ms(0, checkpoint=True, waiting=False) == 0
    assert (
        CheckpointSchedule(settings(aligned_timeout_ms=700), clock).spool_after_ms(0, checkpoint=True, waiting=True)
        == 700
    )


def test_k11_an_epoch_without_a_barrier_works_until_the_next_checkpoint_is_due() -> None:
    clock = ManualClock()
    schedule = CheckpointSchedule(settings(), clock)
    clock.advance(400)
    assert schedule.spool_after_ms(0, checkpoint=False, waiting=False) == 600
    assert schedule.spool_after_ms(1, checkpoint=False, waiting=False) == 1000  # one is pending: it may take long
    clock.advance(590)
    assert schedule.spool_after_ms(0, checkpoint=False, waiting=False) == MIN_WORK_MS


def test_k11_rows_that_wait_are_worked_on_however_often_checkpoints_are_due() -> None:
    assert CheckpointSchedule(settings(), ManualClock()).spool_after_ms(0, checkpoint=True, waiting=True) == MIN_WORK_MS
