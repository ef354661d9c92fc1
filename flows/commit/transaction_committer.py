"""Exactly-once: what is stored in the transaction of the records, and what follows its commit."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace

from flows.batch.target_batch import Runs, TargetBatch
from flows.commit.committer import Committer
from flows.commit.exact_offset_journals import PARTITION, ExactOffsetJournals
from flows.commit.loss_writer import LossWriter
from flows.commit.offset_sync_writer import OffsetSyncWriter
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import OffsetRange
from mm2.core.access.rights import on_topic
from mm2.core.lanes.lease import ExactOffsetsLease, OffsetsLease, PartitionLease
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.connect_offsets import SourceKey, encode_key, encode_offset
from mm2.core.offsets.exact_offset_journal import ExactOffsetJournal
from mm2.core.offsets.exact_offset_records import Segment
from mm2.core.offsets.offset_sync_emission import AckedRun
from mm2.core.topics.acls import Operation
from mm2.core.wire.murmur2 import partition_of
from mm2.kafka.errors import BrokerError, ClusterError

log = logging.getLogger(__name__)

Record = tuple[bytes, bytes | None]

REFUSED_FOR_S = 30.0
"""How long transactions leave the exact offsets topic out after it was refused."""


class TransactionalJournals(ExactOffsetJournals):
    """Journals whose changed segments are part of the next transaction; an aborted one leaves no trace."""

    in_transactions = True

    def __init__(self, lease: ExactOffsetsLease, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(lease)
        self._clock = clock
        self.place = TopicPartition(lease.topic, PARTITION)
        self._committed: dict[PartitionReplicator, Segment] = {}
        self._prepared: list[tuple[PartitionReplicator, ExactOffsetJournal, tuple[Segment, ...]]] = []
        self._refused_until = 0.0

    @property
    def is_refused(self) -> bool:
        """Whether the topic is left out of transactions for now."""
        return self._clock() < self._refused_until

    def refused(self, error: ClusterError) -> None:
        """The topic cannot be added to transactions, or cannot be written."""
        self._refused_until = self._clock() + REFUSED_FOR_S
        self._log_failure(str(error))

    def take_waiting(self) -> set[PartitionReplicator]:
        """Return, once, the partitions that transactions have left out, if the topic is not left out any more."""
        if self._refused_until == 0.0 or self.is_refused:
            return set()
        self._refused_until = 0.0
        return set(self._changed)

    def add(self, partition: PartitionReplicator, lease: PartitionLease) -> None:
        """The source task copies this partition from now on."""
        super().add(partition, lease)
        self._committed[partition] = self._journals[partition].newest

    def remove(self, partition: PartitionReplicator) -> None:
        """The partition has left the source task."""
        super().remove(partition)
        self._committed.pop(partition, None)

    def skipped(self, partition: PartitionReplicator, checked: OffsetRange) -> None:
        """The position moved over source offsets that carry no record: for good, if no transaction has its records."""
        super().skipped(partition, checked)
        if partition in self._committed and not partition.has_uncommitted:
            self._committed[partition] = self._journals[partition].newest

    def prepare(self, with_offsets: Collection[PartitionReplicator]) -> list[Record]:
        """Return the records of the changed segments, each partition's in order; none while the topic is refused.

        A partition that ``needs_initial_commit`` is left out, unless its source offset is in the same transaction.
        """
        self._prepared = []
        if self.is_refused:
            return []
        for partition in self._changed:
            if partition.needs_initial_commit and partition not in with_offsets:
                continue
            journal = self._journals[partition]
            journal.set_epochs(partition.epochs)
            self._prepared.append((partition, journal, journal.unwritten()))
        return [(one.key(), one.value()) for _, _, segments in self._prepared for one in segments]

    def committed(self) -> None:
        """The transaction with what was prepared is committed."""
        for partition, journal, segments in self._prepared:
            for segment in segments:
                journal.written(segment)
            if self._journals.get(partition) is journal and not journal.unwritten():
                self._committed[partition] = journal.newest
                self._changed.discard(partition)
        for partition in self._changed:  # they are not written, but their records are committed
            self._committed[partition] = self._journals[partition].newest
        self._prepared = []
        if not self.is_refused:
            self.error = None

    def aborted(self, moved_back: Collection[PartitionReplicator]) -> None:
        """The transaction is aborted: continue ``moved_back`` from the last committed one."""
        self._prepared = []
        for partition in moved_back:
            last = self._committed.get(partition)
            if last is None:
                continue  # removed meanwhile
            journal = self._continue(partition, last)
            if partition.is_truncated:
                journal.truncated(partition.position)


class AcknowledgedRuns:
    """The ``runs`` of one partition for which offset syncs may be due; contiguous ones are one run."""

    def __init__(self) -> None:
        self.runs: list[AckedRun] = []

    def add(self, runs: Runs, downstream: int) -> None:
        """Add a batch: ``runs`` are (first source offset, records), from the target offset ``downstream`` on."""
        for upstream, count in runs:
            last = self.runs[-1] if self.runs else None
            if last is not None and (last.upstream + last.count, last.downstream + last.count) == (
                upstream,
                downstream,
            ):
                self.runs[-1] = replace(last, count=last.count + count)
            else:
                self.runs.append(AckedRun(upstream=upstream, downstream=downstream, count=count))
            downstream += count


class TransactionCommitter(Committer):
    """Collects what acknowledgements produce until the transaction is committed.

    `prepare` returns the records to write in it: source offsets, in Connect's format, and exact offsets. `committed`
    then moves positions and sends offset syncs, which Java writes after the commit too; `aborted` drops everything.
    """

    def __init__(
        self,
        lease: OffsetsLease,
        *,
        source: str,
        losses: LossWriter,
        syncs: OffsetSyncWriter | None,
        exact: TransactionalJournals | None,
    ) -> None:
        """``source`` is the source cluster's alias. ``syncs`` and ``exact`` None: the flow does not write them."""
        super().__init__(losses=losses, syncs=syncs, exact=exact)
        self._lease = lease
        self._source = source
        self._exact = exact
        self._acknowledged: dict[PartitionReplicator, AcknowledgedRuns] = {}
        self._prepared: dict[PartitionReplicator, tuple[int, ...]] = {}
        self._keys: dict[PartitionReplicator, tuple[bytes, TopicPartition]] = {}
        self._passed_over: set[PartitionReplicator] = set()  # are due within a second
        self.on_due: Callable[[], None] = lambda: None
        self.commit_now: Callable[[], Awaitable[None]] | None = None

    @property
    def is_due(self) -> bool:
        """Whether source offsets wait for a transaction."""
        return any(not self.is_held_back(partition) for partition in self._moved)

    # -- events

    def add(self, partition: PartitionReplicator, lease: PartitionLease) -> None:
        super().add(partition, lease)
        partition.is_transactional = True
        source = partition.source
        key = encode_key(SourceKey(cluster=self._source, topic=source.topic, partition=source.partition))
        self._keys[partition] = key, TopicPartition(self._lease.topic, partition_of(key, self._lease.partitions))
        if self._moved:
            self.on_due()

    def acknowledged(
        self, partition: PartitionReplicator, batch: TargetBatch, base_offset: int, checked: OffsetRange
    ) -> None:
        self._moved.add(partition)
        if self._exact is not None:
            self._exact.acknowledged(partition, batch, base_offset, checked)
        if self._syncs is not None and base_offset >= 0:
            self._acknowledged.setdefault(partition, AcknowledgedRuns()).add(batch.runs, base_offset)

    def start_chosen(self, partition: PartitionReplicator) -> None:
        self._moved.add(partition)
        self.on_due()

    def truncated(self, partition: PartitionReplicator, offset: int) -> None:
        super().truncated(partition, offset)
        self.on_due()

    def left_out(self, partition: PartitionReplicator, checked: OffsetRange) -> None:
        super().left_out(partition, checked)
        self.on_due()

    def passed_over(self, partition: PartitionReplicator, checked: OffsetRange) -> None:
        """The position moved behind dropped records: it is stored within a second, as each time costs a transaction."""
        self._passed_over.add(partition)
        self.skipped(partition, checked)

    def commit_passed_over(self) -> None:
        """Commit also what waits since the exact offsets topic was refused: idle partitions have no other reason."""
        waiting = self._passed_over | (self._exact.take_waiting() if self._exact is not None else set())
        self._passed_over.clear()
        if waiting:
            self._moved |= waiting & self._keys.keys()
            self.on_due()

    # -- transactions

    def output_partitions(self, partitions: Collection[PartitionReplicator]) -> set[TopicPartition]:
        """Return the partitions of internal topics that a transaction with records of these partitions contains."""
        outputs = {self._keys[partition][1] for partition in partitions}
        if self._exact is not None and not self._exact.is_refused:
            outputs.add(self._exact.place)
        return outputs

    def refused(self, codes: Mapping[TopicPartition, int]) -> None:
        """These partitions cannot be added to a transaction. Raises BrokerError if source offsets are among them."""
        for place, code in codes.items():
            right = on_topic(Operation.WRITE, place.topic)
            if self._exact is not None and place == self._exact.place:
                self._exact.refused(BrokerError(code, f"write to {place}", right=right))
            elif place.topic == self._lease.topic:
                raise BrokerError(code, f"commit source offsets to {place}", right=right)

    def write_failed(self, place: TopicPartition, error: ClusterError) -> None:
        """Records could not be written to this partition. Without exact offsets, the next transaction may succeed."""
        if self._exact is not None and place == self._exact.place:
            self._exact.refused(error)

    def is_held_back(self, partition: PartitionReplicator) -> bool:
        """Return whether a loss of the partition has to be recorded before its source offset is stored."""
        return any(self._losses.holds_back(partition.source, offset) for offset in partition.offsets_to_commit)

    def has_unrecorded_loss(self, partition: PartitionReplicator) -> bool:
        """Return whether a loss of the partition has to be recorded before the offsets of its next records."""
        return self.is_held_back(partition) or self._losses.holds_back(partition.source, max(partition.position, 0))

    def prepare(self, joined: Collection[PartitionReplicator]) -> dict[TopicPartition, list[Record]]:
        """Return the records to write in the transaction with records of ``joined``. Nothing may be in flight."""
        due = [one for one in self._moved if (one in joined and one.has_uncommitted) or not self.is_held_back(one)]
        self._prepared = {partition: partition.offsets_to_commit for partition in due}
        records: dict[TopicPartition, list[Record]] = {}
        for partition, offsets in self._prepared.items():
            key, place = self._keys[partition]
            records.setdefault(place, []).extend((key, encode_offset(offset)) for offset in offsets)
        if self._exact is not None and (segments := self._exact.prepare(self._prepared)):
            records[self._exact.place] = segments
        return records

    def committed(self, now: float, wall: float) -> None:
        """The transaction with what was prepared is committed. ``now`` is monotonic, ``wall`` epoch seconds."""
        prepared, self._prepared = self._prepared, {}
        for partition, offsets in prepared.items():
            partition.transaction_committed(offsets, now, wall)
            if partition.offsets_to_commit in ((), offsets[-1:]):
                self._moved.discard(partition)
                self._passed_over.discard(partition)
            elif not partition.has_uncommitted and not partition.needs_initial_commit:
                self._moved.discard(partition)  # it has only passed over dropped records meanwhile
                self._passed_over.add(partition)
        if self._exact is not None:
            self._exact.committed()
        acknowledged, self._acknowledged = self._acknowledged, {}
        if self._syncs is not None:
            for partition, copied in acknowledged.items():
                for run in copied.runs:
                    self._syncs.acknowledged(partition.source, ((run.upstream, run.count),), run.downstream)

    def aborted(self, moved_back: Collection[PartitionReplicator]) -> None:
        """The transaction is aborted, and these partitions have moved back."""
        self._prepared = {}
        self._acknowledged.clear()
        if self._exact is not None:
            self._exact.aborted(moved_back)
        self._moved = {partition for partition in self._moved if partition.needs_commit}

    def is_committed(self, partition: PartitionReplicator) -> bool:
        return partition not in self._moved and partition not in self._passed_over

    async def flush(self) -> None:
        """Commit at once. What cannot be committed now is committed later."""
        self.commit_passed_over()
        await self.losses_recorded()
        if self.commit_now is not None:
            await self.commit_now()

    async def remove(self, partitions: Collection[PartitionReplicator]) -> None:
        await super().remove(partitions)
        for partition in partitions:
            self._moved.discard(partition)
            self._passed_over.discard(partition)
            self._keys.pop(partition, None)
