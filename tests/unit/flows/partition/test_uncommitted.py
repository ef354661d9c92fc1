"""What a partition has copied in a transaction: reported and stored at the commit, copied again after an abort."""

from __future__ import annotations

from flows.batch.target_batch import ProducerId
from flows.partition.replicator import PartitionReplicator
from flows.target.produce_errors import from_response
from mm2.core.lanes.task_states import TaskState
from mm2.core.offsets.leader_epochs import EpochEnd
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.unit.flows.replicators import WALL, RecordingListener, arrive, data, partition


def transactional(start: int | None = 0) -> tuple[PartitionReplicator, RecordingListener]:
    replicator, listener = partition(start=start)
    replicator.is_transactional = True
    replicator.set_producer_id(ProducerId(7, 0, transactional=True))
    return replicator, listener


def copy(replicator: PartitionReplicator, offset: int, count: int, *, end: int = 1_000, epoch: int = -1) -> None:
    arrive(replicator, data(offset, count, epoch=epoch), end=end)
    entry = replicator.next_batch(0.0)
    assert entry is not None
    replicator.acknowledged(entry, offset, 0.0, WALL)


def abort(replicator: PartitionReplicator) -> None:
    replicator.await_roll_back(0.0)
    replicator.roll_back(0.0)
    replicator.set_producer_id(ProducerId(7, 1, transactional=True))


def test_only_committed_records_are_reported() -> None:
    replicator, _ = transactional(40)
    copy(replicator, 40, 10, end=50)
    before = replicator.progress(1.0, WALL)
    assert (before.position, before.stored, before.counters.records, before.counters.latency_count) == (40, 40, 0, 0)
    assert before.lag_seconds > 0
    replicator.transaction_committed(replicator.offsets_to_commit, 1.0, WALL)
    after = replicator.progress(1.0, WALL)
    assert (after.position, after.stored, after.counters.records, after.counters.latency_count) == (50, 50, 10, 1)
    assert (after.lag_seconds, round(after.counters.latency_sum)) == (0, 5)


def test_an_abort_fetches_again_from_the_last_commit() -> None:
    replicator, listener = transactional(40)
    copy(replicator, 40, 10)
    replicator.transaction_committed(replicator.offsets_to_commit, 0.0, WALL)
    copy(replicator, 50, 10)
    arrive(replicator, data(60, 10))
    abort(replicator)
    assert (replicator.position, replicator.fetch_offset, replicator.offsets_to_commit) == (50, 50, (49,))
    assert (replicator.held_bytes, replicator.has_uncommitted, replicator.needs_commit) == (0, False, False)
    arrive(replicator, data(50, 10))
    entry = replicator.next_batch(0.0)
    assert entry is not None
    assert (entry.batch.first_offset, entry.batch.sequence) == (50, 0)
    assert listener.released > 0


def test_errors_of_a_transaction_that_is_being_aborted_change_nothing() -> None:
    replicator, _ = transactional(40)
    arrive(replicator, data(40, 10))
    entry = replicator.next_batch(0.0)
    assert entry is not None
    assert replicator.is_uncertain
    replicator.await_roll_back(0.0)
    replicator.produce_failed(entry, from_response(ErrorCode.INVALID_TXN_STATE), 0.0)
    assert not replicator.can_send(10.0)
    replicator.roll_back(0.0)
    assert (replicator.needs_producer_id, replicator.progress(0.0, WALL).error) == (False, None)


def test_a_batch_that_the_target_surely_does_not_have_waits_for_the_next_transaction() -> None:
    replicator, _ = transactional(40)
    arrive(replicator, data(40, 10))
    entry = replicator.next_batch(0.0)
    assert entry is not None
    replicator.produce_failed(entry, from_response(ErrorCode.NOT_ENOUGH_REPLICAS), 0.0)
    assert (replicator.is_uncertain, replicator.repeats_next, replicator.has_unsent) == (False, False, True)


def test_a_batch_without_a_result_is_repeated_before_the_commit() -> None:
    replicator, _ = transactional(40)
    arrive(replicator, data(40, 10), data(50, 10))
    entry = replicator.next_batch(0.0)
    assert entry is not None
    replicator.produce_failed(entry, from_response(ErrorCode.REQUEST_TIMED_OUT), 0.0)
    assert (replicator.is_uncertain, replicator.repeats_next) == (True, True)
    again = replicator.next_batch(10.0)
    assert again is entry
    assert again.batch.sequence == 0
    replicator.acknowledged(again, 40, 10.0, WALL)
    assert (replicator.is_uncertain, replicator.repeats_next, replicator.has_unsent) == (False, False, True)


def test_a_skip_after_an_abort_waits_until_what_is_before_it_is_copied_again() -> None:
    replicator, _ = transactional(40)
    copy(replicator, 40, 10)
    arrive(replicator, data(50, 1))
    entry = replicator.next_batch(1.0)
    assert entry is not None
    replicator.produce_failed(entry, from_response(ErrorCode.INVALID_RECORD), 1.0)
    assert replicator.progress(1.0, WALL).state is TaskState.FAILED
    abort(replicator)
    replicator.request_skip(50, 2.0)
    assert (replicator.position, replicator.offsets_to_commit, replicator.fetch_offset) == (40, (), 40)
    assert replicator.progress(2.0, WALL).state is TaskState.RUNNING
    copy(replicator, 40, 10)
    arrive(replicator, data(50, 1))
    entry = replicator.next_batch(3.0)
    assert entry is not None
    replicator.produce_failed(entry, from_response(ErrorCode.INVALID_RECORD), 3.0)
    assert (replicator.position, replicator.offsets_to_commit) == (51, (50,))


def test_a_truncation_in_an_aborted_transaction_commits_nothing_beyond_the_data() -> None:
    replicator, _ = transactional(100)
    copy(replicator, 100, 100, end=200, epoch=1)
    assert replicator.fetch_offset == 200
    assert replicator.diverged(200, EpochEnd(1, 150), 0.0)
    assert (replicator.position, replicator.offsets_to_commit, replicator.is_truncated) == (150, (149,), True)
    abort(replicator)
    assert (replicator.position, replicator.offsets_to_commit, replicator.is_truncated) == (100, (), False)


def test_a_truncation_of_committed_records_survives_an_abort() -> None:
    replicator, _ = transactional(0)
    copy(replicator, 0, 100, end=100, epoch=1)
    replicator.transaction_committed(replicator.offsets_to_commit, 0.0, WALL)
    copy(replicator, 100, 10, end=110, epoch=1)
    assert replicator.diverged(110, EpochEnd(1, 50), 0.0)
    abort(replicator)
    assert (replicator.position, replicator.offsets_to_commit, replicator.is_truncated) == (50, (49,), True)
    assert replicator.needs_commit


def test_an_abort_before_a_start_is_chosen_changes_nothing() -> None:
    replicator, _ = transactional(None)
    abort(replicator)
    assert (replicator.position, replicator.needs_start_offset) == (-1, True)


def test_a_committed_transaction_that_was_aborted_later_is_copied_again() -> None:
    replicator, listener = transactional(40)
    for first in (40, 50):
        copy(replicator, first, 10)
        replicator.transaction_committed(replicator.offsets_to_commit, 0.0, WALL)
    copy(replicator, 60, 10)
    abort(replicator)
    replicator.roll_back_committed(0.0)
    assert (replicator.position, replicator.fetch_offset, replicator.held_bytes) == (50, 50, 0)
    assert replicator.offsets_to_commit == (49,), "a restart must not continue behind the records"
    assert replicator.needs_commit
    copy(replicator, 50, 10)
    assert list(replicator.offsets_to_commit) == [49, 59]
    replicator.transaction_committed(replicator.offsets_to_commit, 0.0, WALL)
    assert not replicator.needs_initial_commit
    assert listener.losses == []


def test_only_one_committed_transaction_can_be_without_marker() -> None:
    replicator, _ = transactional(40)
    copy(replicator, 40, 10)
    replicator.transaction_committed(replicator.offsets_to_commit, 0.0, WALL)
    for _ in range(2):
        replicator.roll_back_committed(0.0)
        assert replicator.position == 40
