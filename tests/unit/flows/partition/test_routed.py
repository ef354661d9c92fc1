"""Partitions whose transform writes the records itself."""

from __future__ import annotations

from typing import Any

import pytest

from flows.partition.frames_in_query import FrameInQuery, FrameResult
from flows.partition.replicator import PartitionReplicator
from mm2.core.lanes.lease import PartitionLease
from tests.unit.flows.replicators import RecordingListener, arrive, data, replicator_of


class Writing:
    """Collects frames; the test decides what was written."""

    writes_itself = True

    def __init__(self) -> None:
        self.frames: list[FrameInQuery] = []

    async def remove(self, partition: Any) -> None:
        """Nothing is kept of it."""

    def submit(self, partition: Any, frame: FrameInQuery) -> None:
        self.frames.append(frame)


def routed(dead_letters: str | None = None) -> tuple[PartitionReplicator, RecordingListener, Writing]:
    writing, listener = Writing(), RecordingListener()
    lease = PartitionLease(topic="orders", partition=3, remote_topic="orders", start_offset=0)
    return replicator_of(lease, listener, transform=writing, dead_letters=dead_letters), listener, writing


@pytest.mark.parametrize("batches", [1, 2])
def test_a_drain_ends_although_a_batch_cannot_be_decoded(batches: int) -> None:
    """With several batches in the frame, the next owner finds the one."""
    partition, listener, _ = routed()
    held = arrive(partition, *(data(5 * number, 5) for number in range(batches)))
    partition.drain()
    assert (partition.is_idle, listener.drained_partitions) == (False, 0)
    partition.transformed(0, FrameResult(unreadable="bad bytes"), 0.0)
    assert partition.is_idle
    assert listener.drained_partitions >= 1
    assert (partition.position, listener.released) == (0, held)


def test_a_drain_waits_for_the_dead_letter_of_a_batch_that_cannot_be_decoded() -> None:
    partition, listener, _ = routed("letters")
    arrive(partition, data(0, 5))
    partition.drain()
    partition.transformed(0, FrameResult(unreadable="bad bytes"), 0.0)
    assert (partition.is_idle, listener.drained_partitions) == (False, 0)
    partition.dead_letter_written(listener.letters[0], 0.0)
    assert (partition.is_idle, listener.drained_partitions, partition.position) == (True, 1, 5)
