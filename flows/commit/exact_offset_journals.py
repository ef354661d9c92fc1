"""The journals of exact offsets of a source task's partitions (docs/adr/0003)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from flows.batch.target_batch import TargetBatch
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import OffsetRange
from mm2.core.lanes.lease import ExactOffsetsLease, PartitionLease
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_journal import ExactOffsetJournal
from mm2.core.offsets.exact_offset_records import ProducerEpoch, Segment, segment_from_text
from mm2.core.wire.formats import FormatError

log = logging.getLogger(__name__)

PARTITION = 0
"""The topic has only one partition, since the order of its records matters."""


class ExactOffsetJournals:
    """Keeps a journal of each partition; subclasses write their segments to the exact offsets topic.

    ``error`` is why they cannot be written. Replication continues, and source offsets are stored. That is safe, since
    offsets that are not in the map are translated as in Java, and never beyond the limits of the ranges around them.
    ``on_lost_copies`` is called with source offsets (first, until) whose copies the remote topic no longer has.
    """

    in_transactions = False

    def __init__(self, lease: ExactOffsetsLease) -> None:
        self._topic = lease.topic
        self._journals: dict[PartitionReplicator, ExactOffsetJournal] = {}
        self._removed: dict[TopicPartition, Segment] = {}
        self._changed: set[PartitionReplicator] = set()
        self.error: str | None = None
        self.on_lost_copies: Callable[[PartitionReplicator, int, int], None] = lambda *_: None

    def add(self, partition: PartitionReplicator, lease: PartitionLease) -> None:
        """The source task copies this partition from now on."""
        self._continue(partition, self._last(partition.source, lease))
        self._changed.add(partition)

    def _continue(self, partition: PartitionReplicator, last: Segment | None) -> ExactOffsetJournal:
        """Begin a journal that continues the segment ``last``, and return it."""
        journal = self._journals[partition] = ExactOffsetJournal(
            partition.source,
            topic_ids=partition.topic_ids,
            last=last,
            in_transactions=self.in_transactions,
        )
        return journal

    def _last(self, partition: TopicPartition, lease: PartitionLease) -> Segment | None:
        """Return the newest segment: of the lease, or of this source task if it had the partition before."""
        removed = self._removed.pop(partition, None)
        if lease.last_segment is None:
            return removed
        try:
            leased = segment_from_text(lease.last_segment)
        except FormatError as error:  # the node has decoded it: this lane runs another version
            log.warning(
                "%s: ignoring the last segment of %s, which cannot be decoded: %s", self._topic, partition, error
            )
            return removed
        return removed if removed is not None and removed.sequence >= leased.sequence else leased

    def acknowledged(
        self, partition: PartitionReplicator, batch: TargetBatch, base_offset: int, checked: OffsetRange
    ) -> None:
        """The target has acknowledged a batch; ``base_offset`` is -1 if the offset is unknown."""
        journal = self._journals[partition]
        producer = batch.producer
        if producer is not None and producer.id >= 0:
            journal.written_by(ProducerEpoch(producer.id, producer.epoch))
        if base_offset >= 0:
            journal.acked(batch.runs, base_offset, since=checked.start, until=checked.end)
            if journal.lost_copies is not None:
                self.on_lost_copies(partition, *journal.lost_copies)
                journal.lost_copies = None
        else:
            journal.acked_somewhere(until=checked.end)
        self._changed.add(partition)

    def skipped(self, partition: PartitionReplicator, checked: OffsetRange) -> None:
        """The position moved over source offsets that carry no record."""
        journal = self._journals.get(partition)
        if journal is not None:  # otherwise it was removed meanwhile
            journal.passed(checked.start, checked.end)
            self._changed.add(partition)

    def truncated(self, partition: PartitionReplicator, offset: int) -> None:
        """The position moved back to ``offset``: the source lost its records from there on."""
        self._journals[partition].truncated(offset)
        self._changed.add(partition)

    def topic_ids_changed(self, partition: PartitionReplicator) -> None:
        """The partition's ``topic_ids`` have changed or become known."""
        journal = self._journals.get(partition)
        if journal is not None:
            journal.identify(partition.topic_ids)
            self._changed.add(partition)

    def _log_failure(self, reason: str) -> None:
        message = (
            f"cannot write exact offsets to {self._topic}: {reason}; replication continues, but until this succeeds"
            " the offsets of new records are translated approximately, as in Java MirrorMaker"
        )
        if message != self.error:
            log.debug("%s", message)  # the node logs it, as a warning
        self.error = message

    def remove(self, partition: PartitionReplicator) -> None:
        """The partition has left the source task."""
        journal = self._journals.pop(partition, None)
        if journal is not None:
            self._removed[partition.source] = journal.newest
        self._changed.discard(partition)
