"""A source log that was truncated: the replicator goes back to where the logs part (KIP-320)."""

from __future__ import annotations

from dataclasses import replace

from flows.batch.target_batch import ProducerId
from flows.partition.replicator import PartitionReplicator
from flows.target.produce_errors import ErrorAction, ProduceError
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import LossKind, LossPolicy, OnDataLoss
from mm2.core.lanes.task_states import TaskState
from mm2.core.offsets.connect_offsets import RECREATED_TOPIC
from mm2.core.offsets.leader_epochs import EpochEnd, EpochStart
from mm2.core.settings.client import OffsetReset
from tests.unit.flows.replicators import (
    WALL,
    RecordingListener,
    arrive,
    data,
    is_failed,
    message,
    partition,
    replicator_of,
    send,
)

LOST = ProduceError(action=ErrorAction.RETRY, message="lost", maybe_appended=True)
FATAL = ProduceError(action=ErrorAction.FAIL, message="no", maybe_appended=False)


def copied(*epochs: int) -> tuple[PartitionReplicator, RecordingListener]:
    """Return a partition of which ten records of each epoch are copied."""
    replicator, listener = partition()
    for number, epoch in enumerate(epochs):
        arrive(replicator, data(10 * number, 10, epoch=epoch))
        for entry in send(replicator):
            replicator.acknowledged(entry, 10 * number, 0.0, WALL)
    return replicator, listener


def lost(replicator: PartitionReplicator) -> list[tuple[int, int, str]]:
    return [(loss.first, loss.until, loss.kind) for loss in replicator.losses]


def test_epochs_of_fetched_batches_are_known() -> None:
    replicator, _ = partition(5, epochs=(EpochStart(1, 0), EpochStart(2, 5)))
    assert (replicator.epochs, replicator.last_fetched_epoch) == ((EpochStart(1, 0),), 1), "before the start offset"
    arrive(replicator, data(5, 5, epoch=1), data(10, 5, epoch=4))
    assert (replicator.epochs, replicator.last_fetched_epoch) == ((EpochStart(1, 0), EpochStart(4, 10)), 4)
    replicator.drain(0.0)
    assert replicator.last_fetched_epoch == 1, "the fetched batches were dropped"


def test_copied_records_that_vanished_are_reported_and_copying_continues_before_them() -> None:
    replicator, listener = copied(1, 3)
    replicator.committed(19)
    assert replicator.diverged(20, EpochEnd(3, 15), 0.0)
    assert (replicator.position, replicator.fetch_offset, replicator.last_fetched_epoch) == (15, 15, 3)
    assert (lost(replicator), listener.truncations) == ([(15, 20, LossKind.TRUNCATED)], [15])
    assert replicator.losses[0].reason == (
        "the source's log was truncated at offset 15: it does not have the records up to offset 19 any more that were"
        " sent to the target"
    )


def test_the_lower_offset_is_stored_before_that_of_new_records() -> None:
    replicator, _ = copied(1, 3)
    replicator.diverged(20, EpochEnd(3, 15), 0.0)
    assert replicator.lease_to_resume().start_offset == 15
    assert replicator.lease_to_resume().leader_epochs == (EpochStart(1, 0), EpochStart(3, 10))
    assert not replicator.lease_to_resume().topic_recreated
    arrive(replicator, data(15, 10, epoch=4))
    for entry in send(replicator):
        replicator.acknowledged(entry, 20, 0.0, WALL)
    replicator.committed(19)  # a write that was in flight
    assert (replicator.offset_to_commit, replicator.needs_initial_commit) == (14, True)
    replicator.committed(14)
    assert (replicator.offset_to_commit, replicator.needs_initial_commit) == (24, False)
    replicator.diverged(25, EpochEnd(4, 22), 0.0)
    replicator.diverged(22, EpochEnd(1, 5), 0.0)
    replicator.committed(21)
    assert replicator.offset_to_commit == 4, "of two truncations, the offset of the earlier one is stored"


def test_logs_part_at_the_first_record_of_an_unknown_epoch() -> None:
    replicator, _ = copied(1, 3)
    replicator.diverged(20, EpochEnd(1, 30), 0.0)
    assert (replicator.fetch_offset, replicator.last_fetched_epoch) == (10, 1)


def test_everything_vanished() -> None:
    replicator, _ = copied(1, 3)
    replicator.diverged(20, EpochEnd(0, 0), 0.0)
    assert (replicator.position, replicator.offset_to_commit, replicator.last_fetched_epoch) == (0, -1, -1)


def test_records_that_were_only_fetched_are_no_loss() -> None:
    replicator, listener = copied(1)
    replicator.committed(9)
    arrive(replicator, data(10, 10, epoch=2))
    replicator.diverged(20, EpochEnd(2, 12), 0.0)
    assert (replicator.position, replicator.fetch_offset, replicator.held_bytes) == (10, 10, 0)
    assert (lost(replicator), listener.truncations, replicator.needs_initial_commit) == ([], [], False)


def test_the_batches_in_flight_are_completed_first() -> None:
    replicator, listener = copied(1)
    arrive(replicator, data(10, 5, epoch=1), data(15, 5, epoch=1), data(20, 5, epoch=1))
    first, *others = send(replicator)
    replicator.diverged(25, EpochEnd(1, 12), 0.0)
    meanwhile = replicator.fetch_offset
    assert meanwhile is None
    replicator.acknowledged(first, 10, 0.0, WALL)
    for number, entry in enumerate(others):
        replicator.acknowledged(entry, 15 + 5 * number, 0.0, WALL)
    assert (replicator.position, replicator.fetch_offset, lost(replicator)) == (12, 12, [(12, 25, "truncated")])
    assert listener.acknowledged_batches[-1] == (20, 20)


def test_a_draining_partition_goes_back_before_it_is_drained() -> None:
    replicator, listener = copied(1)
    arrive(replicator, data(10, 5, epoch=1))
    (entry,) = send(replicator)
    replicator.diverged(15, EpochEnd(1, 12), 0.0)
    replicator.drain(0.0)
    replicator.acknowledged(entry, 10, 0.0, WALL)
    assert (listener.drained_partitions, replicator.offset_to_commit) == (1, 11)


def test_an_answer_for_another_fetch_offset_is_ignored() -> None:
    replicator, _ = copied(1)
    assert not replicator.diverged(9, EpochEnd(0, 0), 0.0)
    assert not replicator.diverged(10, EpochEnd(1, 10), 0.0), "the logs do not part before the fetch offset"
    assert (replicator.position, lost(replicator)) == (10, [])


def test_an_ambiguous_batch_is_not_repeated_with_other_records() -> None:
    """The target would take the new records for a repetition, by their sequence, and drop them."""
    replicator, _ = copied(1)
    arrive(replicator, data(10, 5, epoch=1), data(15, 5, epoch=1))
    entries = send(replicator)
    for entry in entries:
        replicator.produce_failed(entry, LOST, 0.0)
    replicator.release_memory(0.0)  # both are fetched again
    arrive(replicator, data(10, 5, epoch=1))
    (repeated,) = send(replicator, 10.0)
    replicator.acknowledged(repeated, 10, 0.0, WALL)
    arrive(replicator, data(15, 5, epoch=2))  # not what was sent: the log parts before the fetch offset
    assert lost(replicator) == [(15, 20, "truncated")]
    assert (replicator.needs_producer_id, replicator.fetch_offset, replicator.held_bytes) == (True, 15, 0)
    replicator.set_producer_id(ProducerId(8, 0))
    arrive(replicator, data(15, 5, epoch=2))
    (new,) = send(replicator, 10.0)
    assert new.batch.sequence == 0


def test_an_ambiguous_batch_before_the_truncation_is_repeated() -> None:
    replicator, _ = copied(1)
    arrive(replicator, data(10, 5, epoch=1), data(15, 5, epoch=1))
    first, second = send(replicator)
    replicator.produce_failed(first, LOST, 0.0)
    replicator.produce_failed(second, LOST, 0.0)
    replicator.release_memory(0.0)
    arrive(replicator, data(10, 5, epoch=1), data(15, 5, epoch=1), data(20, 5, epoch=1))
    replicator.diverged(25, EpochEnd(1, 22), 0.0)
    assert not replicator.needs_producer_id
    arrive(replicator, data(10, 5, epoch=1), data(15, 5, epoch=1), data(22, 5, epoch=2))
    assert [entry.batch.sequence for entry in send(replicator, 10.0)] == [first.batch.sequence]


def test_a_failed_record_that_vanished_is_forgotten() -> None:
    replicator, _ = copied(1)
    arrive(replicator, data(10, epoch=1), data(11, epoch=1))
    first, second = send(replicator)
    replicator.acknowledged(first, 10, 0.0, WALL)
    replicator.produce_failed(second, FATAL, 0.0)
    assert replicator.progress(0.0, WALL).state is TaskState.FAILED
    replicator.wake(10_000.0)
    replicator.diverged(11, EpochEnd(1, 10), 0.0)
    assert message(replicator) is None


def test_epochs_that_the_source_does_not_know_are_ignored() -> None:
    replicator, _ = copied(5)
    replicator.forget_epochs()
    assert replicator.last_fetched_epoch == -1
    arrive(replicator, data(10, 5, epoch=6))
    assert replicator.last_fetched_epoch == -1
    arrive(replicator, data(15, 5, epoch=2))
    assert replicator.last_fetched_epoch == 2
    replicator, _ = partition()
    replicator.forget_epochs()
    arrive(replicator, data(0, 5, epoch=6))
    assert replicator.last_fetched_epoch == 6


def test_epochs_are_unknown_after_a_reset() -> None:
    replicator, _ = copied(5)
    replicator.reset_offset(OffsetReset.EARLIEST, 0, 50, 0.0)
    assert replicator.last_fetched_epoch == 5, "the offset is still there"
    replicator.reset_offset(OffsetReset.EARLIEST, 40, 50, 0.0)
    assert (replicator.fetch_offset, replicator.last_fetched_epoch) == (40, -1)
    assert lost(replicator) == [(10, 40, "retention")]


def test_a_truncation_that_stops_the_partition_moves_nothing_until_it_is_accepted() -> None:
    lease = PartitionLease(
        topic="orders", partition=3, remote_topic="A.orders", start_offset=10, leader_epochs=(EpochStart(1, 0),)
    )
    policy = LossPolicy(on_data_loss=OnDataLoss.STOP_PARTITION)
    listener = RecordingListener()
    replicator = replicator_of(lease, listener, policy=policy)
    replicator.diverged(10, EpochEnd(1, 7), 0.0)
    assert (replicator.position, replicator.fetch_offset, listener.truncations) == (10, None, [])
    assert replicator.stopped_by is not None
    resumed = replicator.lease_to_resume()
    assert (resumed.start_offset, resumed.leader_epochs) == (10, (EpochStart(1, 0),))
    accepted = replace(resumed, stopped_by=None, accepted_loss=replace(replicator.stopped_by, accepted=True))
    replicator = replicator_of(accepted, listener, policy=policy)
    replicator.diverged(10, EpochEnd(1, 7), 0.0)
    assert (replicator.position, replicator.fetch_offset, listener.truncations) == (7, 7, [7])


def test_a_truncation_of_a_recreated_topic_keeps_its_beginning_to_be_stored_first() -> None:
    lease = PartitionLease(topic="orders", partition=3, remote_topic="A.orders", start_offset=0, topic_recreated=True)
    replicator = replicator_of(lease, RecordingListener())
    replicator.set_producer_id(ProducerId(7, 0))
    arrive(replicator, data(0, 5, epoch=1))
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    replicator.diverged(5, EpochEnd(1, 3), 0.0)
    assert (replicator.offset_to_commit, replicator.lease_to_resume().topic_recreated) == (RECREATED_TOPIC, True)
    replicator.committed(RECREATED_TOPIC)
    assert (replicator.offset_to_commit, replicator.lease_to_resume().topic_recreated) == (2, False)


def test_a_partition_does_not_stay_failed_at_records_that_were_truncated() -> None:
    replicator, _ = partition(5)
    arrive(replicator, data(5, 3, epoch=1))
    (entry,) = send(replicator)
    replicator.produce_failed(entry, FATAL, 0.0)
    replicator.wake(100.0)
    arrive(replicator, data(5, 3, epoch=1))
    assert is_failed(replicator)
    assert replicator.diverged(8, EpochEnd(1, 5), 0.0)
    assert (replicator.fetch_offset, is_failed(replicator)) == (5, False)


def test_a_partition_does_not_pause_for_records_that_were_truncated() -> None:
    replicator, _ = partition(0)
    arrive(replicator, data(0, 10, epoch=1))
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    arrive(replicator, data(10, epoch=1))
    (entry,) = send(replicator)
    assert replicator.diverged(11, EpochEnd(1, 5), 0.0)
    replicator.produce_failed(entry, FATAL, 0.0)
    assert (replicator.fetch_offset, is_failed(replicator)) == (5, False)
