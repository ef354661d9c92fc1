"""Partitions whose transform writes the records itself."""

from __future__ import annotations

import pytest

from flows.partition.frames_in_query import FrameResult
from flows.partition.rejection import Rejection
from flows.partition.replicator import PartitionReplicator
from flows.partition.timeouts import TIMEOUTS
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import LossKind
from mm2.core.offsets.leader_epochs import EpochEnd
from tests.unit.flows.queried import Query
from tests.unit.flows.replicators import WALL, RecordingListener, arrive, data, replicator_of

FAILED = Rejection(first=7, until=8, message="denied", is_certain=False)


class Writing(Query):
    """Collects frames; the test decides what was written."""

    writes_itself = True


def routed(dead_letters: str | None = None) -> tuple[PartitionReplicator, RecordingListener, Writing]:
    writing, listener = Writing(), RecordingListener()
    lease = PartitionLease(topic="orders", partition=3, remote_topic="orders", start_offset=0)
    return replicator_of(lease, listener, transform=writing, dead_letters=dead_letters), listener, writing


@pytest.mark.parametrize("batches", [1, 2])
def test_a_drain_ends_although_a_batch_cannot_be_decoded(batches: int) -> None:
    """With several batches in the frame, the next owner finds the one."""
    partition, listener, _ = routed()
    held = arrive(partition, *(data(5 * number, 5) for number in range(batches)))
    partition.drain(0.0)
    assert (partition.is_idle, listener.drained_partitions) == (False, 0)
    partition.transformed(0, FrameResult(unreadable="bad bytes"), 0.0)
    assert partition.is_idle
    assert listener.drained_partitions >= 1
    assert (partition.position, listener.released) == (0, held)


def test_a_drain_waits_for_the_dead_letter_of_a_batch_that_cannot_be_decoded() -> None:
    partition, listener, _ = routed("letters")
    arrive(partition, data(0, 5))
    partition.drain(0.0)
    partition.transformed(0, FrameResult(unreadable="bad bytes"), 0.0)
    assert (partition.is_idle, listener.drained_partitions) == (False, 0)
    partition.dead_letter_written(listener.letters[0], 0.0)
    assert (partition.is_idle, listener.drained_partitions, partition.position) == (True, 1, 5)


def test_records_before_a_failed_one_are_counted_as_copied() -> None:
    partition, _, _ = routed()
    arrive(partition, data(0, 5), data(5, 5))
    size = len(data(0, 5))
    partition.transformed(0, FrameResult(failed=FAILED, routed=7), 0.0)
    progress = partition.progress(0.0, WALL)
    assert (progress.position, progress.counters.records, progress.counters.bytes) == (7, 7, size)
    assert (progress.counters.rows_in, progress.counters.rows_dropped) == (0, 0)
    partition.wake(TIMEOUTS.failed_retry_s)
    arrive(partition, data(5, 5))
    partition.transformed(1, FrameResult(routed=3), 0.0)
    progress = partition.progress(0.0, WALL)
    assert (progress.position, progress.counters.records, progress.counters.bytes) == (10, 10, 2 * size)
    assert (progress.counters.rows_in, progress.counters.rows_dropped) == (0, 0)


def test_a_truncation_behind_written_records_is_a_loss() -> None:
    """The target has them, or will have them, and the source has others."""
    partition, listener, writing = routed()
    arrive(partition, data(0, 5, epoch=1))
    arrive(partition, data(5, 5, epoch=2))
    arrive(partition, data(10, 5, epoch=2))
    assert all(partition.writing(frame, 0.0) for frame in writing.frames[:2])
    partition.transformed(0, FrameResult(routed=5), 0.0)
    assert partition.diverged(15, EpochEnd(1, 3), 0.0)
    assert [(loss.first, loss.until, loss.kind) for loss in listener.losses] == [(3, 10, LossKind.TRUNCATED)]
    assert (partition.position, listener.truncations) == (3, [3])
    assert not partition.writing(writing.frames[2], 0.0)
