"""Callbacks from a partition to its source task."""

from __future__ import annotations

from typing import Protocol, TypeVar

from flows.batch.target_batch import TargetBatch
from flows.partition.rejection import Rejection
from flows.partition.state import OffsetRange, PartitionState
from mm2.core.lanes.losses import Loss

Partition_contra = TypeVar("Partition_contra", bound=PartitionState, contravariant=True)


class PartitionListener(Protocol[Partition_contra]):
    """None of these methods calls back into the partition synchronously."""

    def release(self, count: int, /) -> None:
        """``count`` bytes are no longer held; negative: more are, since a batch grew when it was rebuilt."""

    def fetch_changed(self, partition: Partition_contra, /) -> None:
        """The fetch offset has changed, or fetching was paused or resumed."""

    def send_changed(self, partition: Partition_contra, /) -> None:
        """The partition may have a batch to send."""

    def wake_later(self, partition: Partition_contra, delay: float, /) -> None:
        """Wake the partition after ``delay`` seconds."""

    def size_rejected(self, partition: Partition_contra, /) -> None:
        """The target rejected a batch as too large, and the partition waits for `size_limit_read`."""

    def start_chosen(self, partition: Partition_contra, /) -> None:
        """The partition had no stored offset and has chosen its start."""

    def acknowledged(
        self, partition: Partition_contra, batch: TargetBatch, base_offset: int, checked: OffsetRange, /
    ) -> None:
        """The target has this batch and all before it; ``base_offset`` is -1 if the offset is unknown."""

    def skipped(self, partition: Partition_contra, checked: OffsetRange, /) -> None:
        """The position moved without a copied record."""

    def dead_letter(self, partition: Partition_contra, rejection: Rejection, /) -> None:
        """Write what cannot be copied to the dead-letter topic, and report the result to the partition."""

    def left_out(self, partition: Partition_contra, checked: OffsetRange, /) -> None:
        """The position moved behind records that were left out."""

    def passed_over(self, partition: Partition_contra, checked: OffsetRange, /) -> None:
        """The position moved behind records that the query has dropped; nothing is in flight."""

    def lost(self, partition: Partition_contra, loss: Loss, /) -> None:
        """Source records can no longer be copied; a loss with the same first offset replaces an earlier one."""

    def truncated(self, partition: Partition_contra, offset: int, /) -> None:
        """The position moved back to ``offset``: the source lost its records from there on."""

    def drained(self, partition: Partition_contra, /) -> None:
        """The draining partition is idle."""

    def remote_end_moved_back(self, partition: Partition_contra, /) -> None:
        """The remote topic was truncated or recreated."""
