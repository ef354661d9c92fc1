"""Stores losses, exact offsets, source offsets and offset syncs for what the target has acknowledged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection

from flows.batch.target_batch import TargetBatch
from flows.commit.exact_offset_journals import ExactOffsetJournals
from flows.commit.loss_writer import LossWriter
from flows.commit.offset_sync_writer import OffsetSyncWriter
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import OffsetRange, PartitionState
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import Loss

FLUSH_TIMEOUT_S = 5.0
"""How long to wait for one kind of record before the next kind is written anyway; Java's default of
offset.flush.timeout.ms."""


class Committer(ABC):
    """Takes the events of partitions (`flows.partition.state.PartitionCallbacks`); subclasses store the offsets.

    A source offset after a loss is stored only when the loss is recorded (`LossWriter`).
    """

    def __init__(
        self, *, losses: LossWriter, syncs: OffsetSyncWriter | None, exact: ExactOffsetJournals | None
    ) -> None:
        """``syncs`` and ``exact`` None: the flow does not write them."""
        self._losses = losses
        self._syncs = syncs
        self._journals = exact
        self._moved: set[PartitionReplicator] = set()  # their source offset is to be stored

    @property
    def error(self) -> str | None:
        """The error that prevents writing source offsets or offset syncs."""
        return self._syncs.error if self._syncs is not None else None

    @property
    def warnings(self) -> tuple[str | None, ...]:
        """The errors that prevent writing exact offsets and losses; replication continues without them."""
        return (self._journals.error if self._journals is not None else None, self._losses.warning)

    # -- losses

    def report_lost_copies(self, report: Callable[[PartitionReplicator, int, int], None]) -> None:
        """Call ``report`` with source offsets (first, until) whose copies the remote topic no longer has."""
        if self._journals is not None:
            self._journals.on_lost_copies = report

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The newest losses."""
        return self._losses.newest

    def lost(self, _: PartitionState, loss: Loss) -> None:
        """Source records of the partition can no longer be copied."""
        self._losses.lost(loss)

    async def losses_recorded(self) -> None:
        """Send what is not recorded, and wait at most `FLUSH_TIMEOUT_S` until it is."""
        self._losses.write()
        await self._losses.wait(FLUSH_TIMEOUT_S)

    # -- partitions

    def add(self, partition: PartitionReplicator, lease: PartitionLease) -> None:
        """The source task copies this partition from now on."""
        if partition.needs_initial_commit and partition.stopped_by is None:
            self._moved.add(partition)
        if self._journals is not None:
            self._journals.add(partition, lease)

    @abstractmethod
    def acknowledged(
        self, partition: PartitionReplicator, batch: TargetBatch, base_offset: int, checked: OffsetRange
    ) -> None:
        """The target has acknowledged a batch."""

    @abstractmethod
    def start_chosen(self, partition: PartitionReplicator) -> None:
        """The partition had no stored offset and has chosen its start: store it at once.

        Otherwise a restart before the first copied record would choose again, and with auto.offset.reset=latest the
        records written in between would not be copied.
        """

    def skipped(self, partition: PartitionReplicator, checked: OffsetRange) -> None:
        """The position moved over source offsets that carry no record."""
        if self._journals is not None:
            self._journals.skipped(partition, checked)

    def truncated(self, partition: PartitionReplicator, offset: int) -> None:
        """The position moved back to ``offset``: the source lost its records from there on."""
        self._moved.add(partition)
        if self._journals is not None:
            self._journals.truncated(partition, offset)

    def left_out(self, partition: PartitionReplicator, checked: OffsetRange) -> None:
        """The position moved behind records that were left out."""
        self._moved.add(partition)
        self.skipped(partition, checked)

    def passed_over(self, partition: PartitionReplicator, checked: OffsetRange) -> None:
        """The position moved behind records that a query has dropped. Their offset is stored with the next flush."""
        self._moved.add(partition)
        self.skipped(partition, checked)

    @abstractmethod
    def commit_passed_over(self) -> None:
        """Store the offsets of partitions that only passed over dropped records. Called once a second."""

    def topic_ids_changed(self, partition: PartitionReplicator) -> None:
        """The partition's ``topic_ids`` have changed or become known."""
        if self._journals is not None:
            self._journals.topic_ids_changed(partition)

    async def remove(self, partitions: Collection[PartitionReplicator]) -> None:
        """Send the syncs of partitions that leave the source task, and remove the partitions.

        The caller limits the wait.
        """
        self.release_syncs()
        if self._syncs is not None:
            await self._syncs.wait()
        for partition in partitions:
            if self._syncs is not None:
                self._syncs.remove(partition.source)
            if self._journals is not None:
                self._journals.remove(partition)

    # -- commits

    @abstractmethod
    def is_committed(self, partition: PartitionReplicator) -> bool:
        """Return whether the offset of every acknowledged batch of this partition is stored."""

    @abstractmethod
    async def flush(self) -> None:
        """Store what is pending. What cannot be stored in time is stored later."""

    def release_syncs(self) -> None:
        """Send the offset syncs that were delayed until source offsets were stored."""
        if self._syncs is not None:
            self._syncs.commit()
