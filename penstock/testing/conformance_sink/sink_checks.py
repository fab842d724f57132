"""What every sink must do, as functions of a fresh and empty system."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from penstock.errors import SinkTransactionLostError
from penstock.failpoint import InjectedCrash
from penstock.testing.conformance_sink.sink_job import CrashAt, Input, SinkJob
from penstock.testing.conformance_sink.sink_system import SinkSystem

MAX_STEPS = 2_000


# ---- rows


def rows_appear_when_their_checkpoint_is_committed(system: SinkSystem) -> None:
    job = SinkJob(system).start()
    job.write([(1, 1)])
    job.write([(2, 2)])
    found = job.pre_commit()
    _expect(system, [])
    job.complete(found)
    job.commit(found)
    _expect(system, [(1, 1), (2, 2)])
    job.stop()


def later_rows_belong_to_the_next_checkpoint(system: SinkSystem) -> None:
    job = SinkJob(system).start()
    job.write([(1, 1)])
    first = job.pre_commit()
    job.complete(first)
    job.write([(2, 2)])
    job.commit(first)
    _expect(system, [(1, 1)])
    job.checkpoint([(3, 3)])
    _expect(system, [(1, 1), (2, 2), (3, 3)])
    job.stop()


def all_subtasks_are_committed(system: SinkSystem) -> None:
    job = SinkJob(system, subtask_count=3).start()
    job.checkpoint([(1, 1), (2, 2)], [], [(3, 3)])
    job.checkpoint([], [(4, 4)], [])
    _expect(system, [(1, 1), (2, 2), (3, 3), (4, 4)])
    job.stop()


def rows_of_a_subtask_stay_in_order(system: SinkSystem) -> None:
    job = SinkJob(system, subtask_count=2).start()
    for start in (0, 10):
        job.write([(start + n, n) for n in (3, 1)], [(100 + start, 0)])
        job.add([(start + n, n) for n in (2, 4)])
        job.checkpoint([(start + 5, 5)], [(101 + start, 0)])
    found = [row for row in system.rows() if row[0] < 100]
    if system.upserts:  # a table by key has no order
        found.sort(key=lambda row: (row[0] // 10, (3, 1, 2, 4, 5).index(row[1])))
    assert found == [(start + n, n) for start in (0, 10) for n in (3, 1, 2, 4, 5)], f"out of order: {found}"
    job.stop()


def the_last_row_of_an_id_wins_where_rows_replace_each_other(system: SinkSystem) -> None:
    job = SinkJob(system).start()
    job.checkpoint([(1, 1), (2, 1), (1, 2)])
    _expect(system, [(1, 2), (2, 1)] if system.upserts else [(1, 1), (2, 1), (1, 2)])
    job.write([(2, 2), (1, 3)])
    job.checkpoint([(1, 4)])
    _expect(system, [(1, 4), (2, 2)] if system.upserts else [(1, 1), (2, 1), (1, 2), (2, 2), (1, 3), (1, 4)])
    job.stop()


def a_checkpoint_without_rows_changes_nothing(system: SinkSystem) -> None:
    job = SinkJob(system, subtask_count=2).start()
    job.checkpoint([], [])
    job.checkpoint([(1, 1)], [])
    job.checkpoint([], [])
    _expect(system, [(1, 1)])
    job.stop()


def a_large_checkpoint_is_complete(system: SinkSystem) -> None:
    rows = [(n, n) for n in range(20_000)]
    job = SinkJob(system, subtask_count=2).start()
    job.write(rows[:7_000], rows[10_000:])
    job.checkpoint(rows[7_000:10_000], [])
    _expect(system, rows)
    job.stop()


# ---- roll back


def roll_back_drops_the_running_epoch_only(system: SinkSystem) -> None:
    job = SinkJob(system).start()
    job.write([(1, 1)])
    job.write([(2, 2)])
    job.roll_back()
    job.write([(3, 3)])
    job.add([(4, 4)])
    job.roll_back()
    job.roll_back()
    job.checkpoint([(5, 5)])
    _expect(system, [(1, 1), (5, 5)])
    job.stop()


def rows_after_a_roll_back_belong_to_the_same_epoch(system: SinkSystem) -> None:
    job = SinkJob(system).start()
    job.write([(1, 1)])
    job.write([(2, 2)])
    job.roll_back()
    job.add([(3, 3)])
    job.roll_back()
    job.checkpoint([(4, 4)])
    _expect(system, [(1, 1), (4, 4)])
    job.stop()


def roll_back_after_pre_commit_drops_the_running_epoch_only(system: SinkSystem) -> None:
    job = SinkJob(system).start()
    job.checkpoint([(1, 1)])
    job.write([(2, 2)])
    job.write([(3, 3)])
    job.pre_commit()
    job.roll_back()
    _expect(system, [(1, 1)])
    job.checkpoint([(4, 4)])
    _expect(system, [(1, 1), (2, 2), (4, 4)])
    job.checkpoint([(5, 5)])
    _expect(system, [(1, 1), (2, 2), (4, 4), (5, 5)])
    job.stop()


def roll_back_after_pre_commit_may_be_followed_by_epochs_without_a_checkpoint(system: SinkSystem) -> None:
    job = SinkJob(system).start()
    for n in (10, 20):
        job.write([(n + 1, n)])
        job.write([(n + 2, n)])
        job.pre_commit()
        job.roll_back()
        job.write([(n + 3, n)])
        job.write([(n + 4, n)])
        job.roll_back()
        job.checkpoint([(n + 5, n)])
    _expect(system, [(n + k, n) for n in (10, 20) for k in (1, 3, 5)])
    job.stop()


def a_pre_commit_without_rows_can_be_rolled_back(system: SinkSystem) -> None:
    job = SinkJob(system).start()
    job.write([(1, 1)])
    job.write([])
    job.pre_commit()
    job.roll_back()
    job.checkpoint([])
    _expect(system, [(1, 1)])
    job.write([])
    job.pre_commit()
    job.roll_back()
    job.checkpoint([(2, 2)])
    _expect(system, [(1, 1), (2, 2)])
    job.stop()


def no_transaction_has_the_name_of_another(system: SinkSystem) -> None:
    jobs = [SinkJob(system, job_id=job_id, sink_uid=uid, subtask_count=2) for job_id in "ab" for uid in ("x", "y")]
    for number, job in enumerate(jobs):
        for _ in range(2):
            job.start()
            job.write([(number, 1)], [(number + 100, 1)])
            job.pre_commit()
            job.roll_back()
            job.checkpoint([(number, 2)], [(number + 100, 2)])
    names = [name for job in jobs for name in job.names]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"transactions with the same name: {sorted(twice)}"
    _stop_all(jobs)


# ---- commits


def committing_again_changes_nothing(system: SinkSystem) -> None:
    job = SinkJob(system, subtask_count=2).start()
    found = job.checkpoint([(1, 1)], [(2, 2)])
    job.commit(found)
    job.committer = job.driver()
    job.commit(found)
    _expect(system, [(1, 1), (2, 2)])
    job.checkpoint([(3, 3)], [])
    _expect(system, [(1, 1), (2, 2), (3, 3)])
    job.stop()


def a_later_attempt_commits(system: SinkSystem) -> None:
    job = SinkJob(system, subtask_count=2).start()
    job.write([(1, 1)], [(2, 2)])
    job.complete(job.pre_commit())
    job.start()
    _expect(system, [(1, 1), (2, 2)])
    job.start()
    job.checkpoint([(3, 3)], [])
    _expect(system, [(1, 1), (2, 2), (3, 3)])
    job.stop()


def a_driver_that_slept_changes_nothing(system: SinkSystem) -> None:
    job = SinkJob(system).start()
    job.write([(1, 1), (2, 1)])
    old, slept = job.pre_commit(), job.committer
    job.complete(old)
    job.start()
    job.checkpoint([(1, 2)])
    for committable in old:
        slept.commit([committable])
    _expect(system, [(1, 2), (2, 1)] if system.upserts else [(1, 1), (2, 1), (1, 2)])
    job.stop()


def two_drivers_at_once_commit_once(system: SinkSystem) -> None:
    job = SinkJob(system).start()
    expected = []
    for n in range(5):
        job.write([(n, n), (n + 100, n)])
        found = job.pre_commit()
        drivers = [job.driver() for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            for result in [pool.submit(driver.commit, found) for driver in drivers]:
                error = result.exception()  # it may have to try again, as after every failed commit
                assert error is None or not isinstance(error, SinkTransactionLostError), f"not committed: {error}"
        job.complete(found)
        job.commit(found)
        expected += [(n, n), (n + 100, n)]
        _expect(system, expected)
    job.stop()


def a_lost_reply_is_found_out(system: SinkSystem) -> None:
    for run in range(1, MAX_STEPS):
        job = SinkJob(system, job_id=f"job-{run}", subtask_count=2).start()
        job.write([(10 * run, 1)], [(10 * run + 1, 1)])
        found = job.pre_commit()
        job.complete(found)
        with system.faults.at(run, ConnectionError("no reply"), is_crash=False):
            try:
                job.commit(found)
            except SinkTransactionLostError:
                raise
            except Exception:
                job.commit(found)
        _expect_ids(system, range(10 * run, 10 * run + 10), [(10 * run, 1), (10 * run + 1, 1)], f"fault {run}")
        job.stop()
        system.clear()
        if not system.faults.was_hit:
            return
    raise AssertionError(f"the commit makes more than {MAX_STEPS} calls")


# ---- what crashes leave


def nothing_of_a_dead_attempt_appears(system: SinkSystem) -> None:
    job = SinkJob(system, subtask_count=2).start()
    job.checkpoint([(1, 1)], [])
    job.write([(2, 2)], [(3, 3)])
    job.pre_commit()
    job.write([(4, 4)], [])
    job.start()
    _expect(system, [(1, 1)])
    job.checkpoint([(5, 5)], [])
    _expect(system, [(1, 1), (5, 5)])
    job.stop()


def closing_a_writer_publishes_nothing(system: SinkSystem) -> None:
    job = SinkJob(system).start()
    job.write([(1, 1)])
    job.close()
    _expect(system, [])
    job.start()
    job.write([(2, 2)])
    found = job.pre_commit()
    job.close()
    _expect(system, [])
    job.complete(found)
    job.commit(found)
    _expect(system, [(2, 2)])
    job.stop()


def a_sweep_keeps_what_is_needed(system: SinkSystem) -> None:
    job = SinkJob(system).start()
    job.write([(1, 1)])
    needed = job.pre_commit()
    job.complete(needed)
    job.driver().sweep(needed, job.attempt + 5)
    job.commit(needed)
    _expect(system, [(1, 1)])
    job.start()
    job.write([(2, 2)])
    running = job.pre_commit()
    job.driver().sweep([], job.attempt)  # of older attempts only
    job.complete(running)
    job.commit(running)
    _expect(system, [(1, 1), (2, 2)])
    job.stop()


def a_sweep_leaves_other_jobs_and_sinks_alone(system: SinkSystem) -> None:
    others = [SinkJob(system, job_id=job, sink_uid=uid).start() for job, uid in (("job-2", "out"), ("job", "out-2"))]
    for number, other in enumerate(others):
        other.write([(number, number)])
    found = [other.pre_commit() for other in others]
    job = SinkJob(system)
    for _ in range(3):
        job.start()
        job.write([(9, 9)])
        job.pre_commit()
    for other, committables in zip(others, found, strict=True):
        other.complete(committables)
        other.commit(committables)
    _expect(system, [(0, 0), (1, 1)])
    _stop_all([job, *others])


def what_was_swept_is_not_called_committed(system: SinkSystem) -> None:
    job = SinkJob(system).start()
    job.write([(1, 1)])
    found = job.pre_commit()
    assert found, "pre_commit describes no transaction, although a row was written"
    job.start()  # the checkpoint was not completed
    try:
        job.commit(found)
    except SinkTransactionLostError:
        _expect(system, [])
    else:
        _expect(system, [(1, 1)])  # the committable holds its rows itself
    job.stop()


def a_crash_between_any_two_steps_is_recovered(system: SinkSystem) -> None:
    for run in range(1, MAX_STEPS):
        job, epochs = SinkJob(system, job_id=f"job-{run}", subtask_count=2), _input(run)
        crash = CrashAt(run)
        job.start()
        try:
            job.run(epochs, crash)
        except InjectedCrash:
            job.start().run(epochs)
        _expect_input(system, run, f"crash after step {run}")
        job.stop()
        system.clear()
        if not crash.was_hit:
            return
    raise AssertionError(f"more than {MAX_STEPS} steps")


def a_crash_within_any_call_is_recovered(system: SinkSystem) -> None:
    for run in range(1, MAX_STEPS):
        job, epochs = SinkJob(system, job_id=f"job-{run}", subtask_count=2), _input(run)
        with system.faults.at(run, InjectedCrash(), is_crash=True):
            try:
                job.start().run(epochs)
            except InjectedCrash:
                pass
        job.start().run(epochs)
        _expect_input(system, run, f"crash at call {run}")
        job.stop()
        system.clear()
        if not system.faults.was_hit:
            return
    raise AssertionError(f"more than {MAX_STEPS} calls")


def a_crash_within_a_recovery_is_recovered(system: SinkSystem) -> None:
    for run in range(1, MAX_STEPS):
        job, epochs = SinkJob(system, job_id=f"job-{run}", subtask_count=2).start(), _input(run)
        for rows in epochs[:2]:
            job.write(*rows)
        job.complete(job.pre_commit())
        job.write(*epochs[2])
        with system.faults.at(run, InjectedCrash(), is_crash=True):
            try:
                job.start()
            except InjectedCrash:
                pass
        job.start().run(epochs)
        _expect_input(system, run, f"crash at call {run} of the recovery")
        job.stop()
        system.clear()
        if not system.faults.was_hit:
            return
    raise AssertionError(f"more than {MAX_STEPS} calls")


CHECKS: tuple[Callable[[SinkSystem], None], ...] = (
    rows_appear_when_their_checkpoint_is_committed,
    later_rows_belong_to_the_next_checkpoint,
    all_subtasks_are_committed,
    rows_of_a_subtask_stay_in_order,
    the_last_row_of_an_id_wins_where_rows_replace_each_other,
    a_checkpoint_without_rows_changes_nothing,
    a_large_checkpoint_is_complete,
    roll_back_drops_the_running_epoch_only,
    rows_after_a_roll_back_belong_to_the_same_epoch,
    roll_back_after_pre_commit_drops_the_running_epoch_only,
    roll_back_after_pre_commit_may_be_followed_by_epochs_without_a_checkpoint,
    a_pre_commit_without_rows_can_be_rolled_back,
    no_transaction_has_the_name_of_another,
    committing_again_changes_nothing,
    a_later_attempt_commits,
    a_driver_that_slept_changes_nothing,
    two_drivers_at_once_commit_once,
    a_lost_reply_is_found_out,
    nothing_of_a_dead_attempt_appears,
    closing_a_writer_publishes_nothing,
    a_sweep_keeps_what_is_needed,
    a_sweep_leaves_other_jobs_and_sinks_alone,
    what_was_swept_is_not_called_committed,
    a_crash_between_any_two_steps_is_recovered,
    a_crash_within_any_call_is_recovered,
    a_crash_within_a_recovery_is_recovered,
)


# ---- parts


def _input(run: int) -> Input:
    """Four epochs of two subtasks, with ids that no other run has."""
    ids = count(100 * run)
    return [[[(next(ids), n), (next(ids), n)], [(next(ids), n)]] for n in range(4)]


def _stop_all(jobs: Sequence[SinkJob]) -> None:
    for job in jobs:
        job.start()  # each sweeps only its own transactions
    for job in jobs:
        job.stop()


def _expect(system: SinkSystem, rows: list[tuple[int, int]]) -> None:
    found = sorted(system.rows())
    assert found == sorted(rows), f"a reader sees {found[:20]}, expected {sorted(rows)[:20]}"


def _expect_ids(system: SinkSystem, ids: range, rows: list[tuple[int, int]], when: str) -> None:
    found = sorted(row for row in system.rows() if row[0] in ids)
    assert found == sorted(rows), f"after {when} a reader sees {found}, expected {sorted(rows)}"


def _expect_input(system: SinkSystem, run: int, when: str) -> None:
    rows = [row for epoch in _input(run) for part in epoch for row in part]
    _expect_ids(system, range(100 * run, 100 * run + 100), rows, when)
