"""Exact offsets: the target offset of every acknowledged batch, for exact offset translation (docs/adr/0003)."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from dataclasses import replace
from functools import partial

from flows.batch.target_batch import TargetBatch
from flows.partition.state import OffsetRange, PartitionState
from mm2.core.lanes.lease import ExactOffsetsLease, PartitionLease
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_journal import ExactOffsetJournal
from mm2.core.offsets.exact_offset_records import Segment, decode_segment, segment_key
from mm2.core.wire.formats import FormatError
from mm2.kafka.errors import ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import ControlProducer

log = logging.getLogger("mm2.exact_offsets")

_PARTITION = 0  # the topic has only one, since the order of its records matters

THROTTLED_FOR_LONG_S = 30.0
"""Throttling by a quota is reported after this long: a broker averages over eleven seconds (quota.window.num), so a
burst is throttled for about that time."""


class ExactOffsetWriter:
    """Keeps a journal of each partition and writes changes to the exact offsets topic.

    A failed write delays nothing: replication continues, and source offsets are stored. That is safe, since offsets
    that are not in the map are translated as in Java, and never beyond the limits of the ranges around them. Failed
    segments are sent again by the next `write`, at most one per partition.

    (A) A partition's segments are written in the order of its journal, those of one `write` at a time.
    (B) `write` sends everything that was reported before it, except for partitions with an earlier write in flight.
    (C) Nothing is written for a partition that ``needs_initial_commit``: if the lane ends before the commit, the
        segments still refer to the replaced topic, and the next lane starts at the beginning of the new topic as well.
        Likewise, they still have the leader epochs from before a truncation, which the next lane detects again.
    """

    def __init__(self, producer: ControlProducer, lease: ExactOffsetsLease) -> None:
        self._producer = producer
        self._topic = lease.topic
        self._segments = lease.segments
        self._journals: dict[PartitionState, ExactOffsetJournal] = {}
        self._removed: dict[TopicPartition, Segment] = {}
        self._changed: set[PartitionState] = set()
        self._writing: dict[PartitionState, asyncio.Future[int]] = {}
        self._timed_out = False
        self.error: str | None = None

    def add(self, partition: PartitionState, lease: PartitionLease) -> None:
        """The source task copies this partition from now on."""
        last = self._last(partition.source, lease)
        self._journals[partition] = ExactOffsetJournal(
            partition.source, topic_ids=partition.topic_ids, last=last, segments=self._segments
        )
        self._changed.add(partition)

    def _last(self, partition: TopicPartition, lease: PartitionLease) -> Segment | None:
        """Return the newest segment: of the lease, or of this source task if it had the partition before."""
        removed = self._removed.pop(partition, None)
        if lease.last_segment is None:
            return removed
        try:
            leased = decode_segment(segment_key(partition, 0), b64decode(lease.last_segment))
        except (FormatError, ValueError) as error:  # the node has decoded it: this lane runs another version
            log.warning(
                "%s: ignoring the last segment of %s, which cannot be decoded: %s", self._topic, partition, error
            )
            return removed
        if leased is None or (removed is not None and removed.sequence >= leased.sequence):
            return removed
        return replace(leased, index=leased.sequence % self._segments)

    def acknowledged(
        self, partition: PartitionState, batch: TargetBatch, base_offset: int, checked: OffsetRange
    ) -> None:
        """The target has acknowledged a batch; ``base_offset`` is -1 if the offset is unknown."""
        journal = self._journals[partition]
        if base_offset >= 0:
            journal.acked(batch.runs, base_offset, since=checked.start, until=checked.end)
        else:
            journal.acked_somewhere(until=checked.end)
        self._changed.add(partition)

    def skipped(self, partition: PartitionState, checked: OffsetRange) -> None:
        """The position moved over source offsets that carry no record."""
        journal = self._journals.get(partition)
        if journal is not None:  # otherwise it was removed meanwhile
            journal.passed(checked.start, checked.end)
            self._changed.add(partition)

    def truncated(self, partition: PartitionState, offset: int) -> None:
        """The position moved back to ``offset``: the source lost its records from there on."""
        self._journals[partition].truncated(offset)
        self._changed.add(partition)

    def topic_ids_changed(self, partition: PartitionState) -> None:
        """The partition's ``topic_ids`` have changed or become known."""
        journal = self._journals.get(partition)
        if journal is not None:
            journal.identify(partition.topic_ids)
            self._changed.add(partition)

    def remove(self, partition: PartitionState) -> None:
        """The partition has left the source task."""
        journal = self._journals.pop(partition, None)
        if journal is not None:
            self._removed[partition.source] = journal.newest
        self._changed.discard(partition)
        self._clear_error_if_done()

    def write(self) -> None:
        """Send the changes of partitions that have no write in flight."""
        for partition in list(self._changed):
            if partition in self._writing or partition.needs_initial_commit:
                continue
            self._changed.discard(partition)
            journal = self._journals[partition]
            journal.set_epochs(partition.epochs)
            for segment in journal.unwritten():
                try:
                    written = self._producer.send(self._topic, _PARTITION, segment.key(), segment.value())
                except ClusterError as error:
                    self._failed(partition, journal, error)
                    return
                self._writing[partition] = written  # the last one: they are written in order
                written.add_done_callback(partial(self._written, partition, journal, segment))

    async def wait(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds until everything sent is written.

        After a timeout, further calls return immediately until a write succeeds: a missing topic must not delay every
        commit of source offsets. Writes throttled by a quota of the target succeed eventually, and are reported only if
        that takes long.
        """
        if self._writing and not self._timed_out:
            throttled = self._producer.throttled
            _, late = await asyncio.wait(list(self._writing.values()), timeout=timeout)
            if late and throttled > THROTTLED_FOR_LONG_S:
                self._log_failure(f"throttled by the target's quota for {throttled:.0f} s")
            elif late and not throttled and not self._producer.throttled:
                self._timed_out = True
                self._log_failure(str(self._producer.trouble or f"not written within {timeout:.0f} s"))

    def _written(
        self, partition: PartitionState, journal: ExactOffsetJournal, segment: Segment, done: asyncio.Future[int]
    ) -> None:
        if self._writing.get(partition) is done:
            del self._writing[partition]
        error = None if done.cancelled() else done.exception()
        if isinstance(error, ClusterClosed) or done.cancelled():
            return
        if error is not None:
            self._failed(partition, journal, error)
            return
        journal.written(segment)
        self._timed_out = False
        if self.error is not None:
            log.info("writing exact offsets to %s again", self._topic)
            self.error = None

    def _failed(self, partition: PartitionState, journal: ExactOffsetJournal, error: BaseException) -> None:
        journal.refused()
        if partition not in self._journals:  # it was removed: no retry
            self._clear_error_if_done()
            return
        self._changed.add(partition)
        self._log_failure(str(error))

    def _clear_error_if_done(self) -> None:
        """Clear the error if nothing is left to write."""
        if not (self._changed or self._writing):
            self.error = None

    def _log_failure(self, reason: str) -> None:
        message = (
            f"cannot write exact offsets to {self._topic}: {reason}; replication continues, but until this succeeds"
            " the offsets of new records are translated approximately, as in Java MirrorMaker"
        )
        if message != self.error:
            log.warning("%s", message)
        self.error = message
