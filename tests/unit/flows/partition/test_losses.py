"""A partition that a loss stops, until a lease with the acceptance replaces it."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from flows.batch.target_batch import ProducerId
from flows.partition.replicator import PartitionReplicator
from flows.target.produce_errors import from_response
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import LOSSES_KEPT, Loss, LossKind, LossPolicy, OnDataLoss
from mm2.core.naming.names import Flow
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.core.settings.client import OffsetReset
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.unit.flows.replicators import (
    RecordingListener,
    arrive,
    data,
    is_failed,
    message,
    partition,
    replicator_of,
    send,
)

STOP = LossPolicy(flow=Flow("A", "B"), on_data_loss=OnDataLoss.STOP_PARTITION)
TOPIC_ID = UUID(int=7)
LEASE = PartitionLease(
    topic="orders", partition=3, remote_topic="A.orders", start_offset=0, topic_ids=TopicIds(source=TOPIC_ID)
)


def stopping(lease: PartitionLease = LEASE) -> tuple[PartitionReplicator, RecordingListener]:
    listener = RecordingListener()
    replicator = replicator_of(lease, listener, policy=STOP)
    replicator.set_producer_id(ProducerId(7, 0))
    return replicator, listener


def test_a_loss_stops_fetching_and_the_position() -> None:
    replicator, listener = stopping()
    arrive(replicator, data(0, 5))
    replicator.reset_offset(OffsetReset.EARLIEST, 50, 100, 0.0)
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 0, 0.0, 0.0)
    assert replicator.position == 5, "what precedes the loss is copied"
    assert (replicator.fetch_offset, replicator.needs_start_offset) == (None, False)
    assert is_failed(replicator)
    assert str(message(replicator)).endswith("mm2 accept-loss FILE --flow 'A->B' --topic orders --partition 3")
    (loss,) = listener.losses
    assert loss.remote_topic == "A.orders"
    assert (loss.first, loss.until, loss.kind, loss.stops, loss.topic_id) == (
        5,
        50,
        LossKind.RETENTION,
        "partition",
        str(TOPIC_ID),
    )
    replicator.reset_offset(OffsetReset.EARLIEST, 60, 100, 0.0)
    assert len(listener.losses) == 1, "an answer that was on its way changes nothing"
    assert replicator.lease_to_resume().stopped_by == loss
    assert replicator.first_left == 50


def test_its_successor_waits_for_the_acceptance_of_the_same_loss() -> None:
    replicator, listener = stopping()
    replicator.reset_offset(OffsetReset.EARLIEST, 50, 100, 0.0)
    (loss,) = listener.losses
    waiting, listener = stopping(replace(LEASE, stopped_by=loss))
    assert is_failed(waiting)
    assert waiting.fetch_offset is None
    assert listener.losses == []
    accepted = replace(loss, accepted=True)
    continued, listener = stopping(replace(LEASE, accepted_loss=accepted))
    continued.reset_offset(OffsetReset.EARLIEST, 60, 100, 0.0)
    assert (continued.position, continued.fetch_offset, continued.stopped_by) == (60, 60, None)
    assert [(one.first, one.until, one.accepted) for one in listener.losses] == [(0, 60, True)]
    continued.reset_offset(OffsetReset.EARLIEST, 70, 100, 0.0)
    assert continued.fetch_offset == 70, "nothing was copied since the accepted loss"
    arrive(continued, data(70, 1))
    continued.reset_offset(OffsetReset.EARLIEST, 80, 100, 0.0)
    assert continued.stopped_by is not None
    assert [(one.first, one.until) for one in continued.losses] == [(0, 70), (71, 80)]


def test_nothing_stops_by_default() -> None:
    replicator, listener = partition(5)
    replicator.reset_offset(OffsetReset.EARLIEST, 50, 100, 0.0)
    assert replicator.lose(60, 61, "skipped on purpose", kind=LossKind.SKIPPED)
    assert (replicator.fetch_offset, replicator.first_left, is_failed(replicator)) == (50, 50, False)
    assert [(one.kind, one.stops, one.topic_id) for one in listener.losses] == [
        ("retention", "", None),
        ("skipped", "", None),
    ]


def test_losses_kept_are_bounded() -> None:
    replicator, listener = partition(0)
    for number in range(2 * LOSSES_KEPT):
        replicator.lose(10 * number, 10 * number + 5, "too late", kind=LossKind.RETENTION)
    assert len(replicator.losses) == LOSSES_KEPT
    assert replicator.losses[-1].count == LOSSES_KEPT + 1
    assert sum(one.offsets for one in replicator.losses) == 5 * 2 * LOSSES_KEPT
    assert len({one.first for one in listener.losses}) == LOSSES_KEPT, "further ones extend the last record"


def test_a_deleted_offset_beyond_the_loss_is_not_counted_twice() -> None:
    loss = Loss(topic="orders", partition=3, first=0, until=50, reason="r", kind="retention", stops="partition")
    waiting, _ = stopping(replace(LEASE, stopped_by=loss))
    assert (waiting.position, waiting.first_left) == (0, 50)


def test_a_partition_does_not_stay_failed_at_records_that_are_gone() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0), end=5)
    (entry,) = send(replicator)
    replicator.produce_failed(entry, from_response(ErrorCode.TOPIC_AUTHORIZATION_FAILED), 0.0)
    assert is_failed(replicator)
    replicator.wake(100.0)
    replicator.reset_offset(OffsetReset.EARLIEST, 5, 5, 100.0)
    assert (replicator.position, is_failed(replicator), message(replicator)) == (5, False, None)


def test_what_was_copied_before_is_not_lost_when_it_is_copied_again() -> None:
    """The source has deleted it since; the target has the first copies."""
    replicator, listener = stopping(replace(LEASE, repeat=1, copied_until=30))
    replicator.reset_offset(OffsetReset.EARLIEST, 20, 100, 0.0)
    assert (listener.losses, replicator.position, replicator.stopped_by) == ([], 20, None)
    (event,) = replicator.take_events(0.0, 0.0)
    assert event.text.startswith(
        "offsets 0-19: deleted on the source before it was copied again; the target has the first copies"
    )
    assert replicator.lease_to_resume().repeat == 1
    replicator.reset_offset(OffsetReset.EARLIEST, 50, 100, 0.0)
    assert [(one.first, one.until) for one in listener.losses] == [(30, 50)]
    assert replicator.stopped_by is not None
