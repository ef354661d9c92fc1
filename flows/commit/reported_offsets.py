"""Positions that the node stores: a lane only reports them.

``kafka-mirror-maker`` commits them as offsets of its consumer group, as a member of it (`mm2.mirror1`).
"""

from __future__ import annotations

from flows.batch.target_batch import TargetBatch
from flows.commit.committer import Committer
from flows.commit.loss_writer import LossWriter
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import OffsetRange


class ReportedOffsets(Committer):
    """At least once: the position is behind what the target acknowledged, and the node stores it after that."""

    def __init__(self) -> None:
        super().__init__(losses=LossWriter(None, None), syncs=None, exact=None)

    def acknowledged(
        self, partition: PartitionReplicator, batch: TargetBatch, base_offset: int, checked: OffsetRange
    ) -> None:
        """The target has acknowledged a batch."""
        self._moved.add(partition)

    def start_chosen(self, partition: PartitionReplicator) -> None:
        """The partition has chosen its start, which the node takes from the next report."""
        self._moved.add(partition)
        if (offset := partition.offset_to_commit) is not None:
            partition.committed(offset)

    def commit_passed_over(self) -> None:
        """They are reported like those of copied records."""

    def is_committed(self, partition: PartitionReplicator) -> bool:
        """Return whether the position of this partition is reported as stored."""
        return partition not in self._moved

    async def flush(self) -> None:
        """Take every position for stored."""
        moved, self._moved = self._moved, set()
        for partition in moved:
            if (offset := partition.offset_to_commit) is not None:
                partition.committed(offset)
