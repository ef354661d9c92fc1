"""Exact offsets: the target offset of every acknowledged batch, for exact offset translation (docs/adr/0003)."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from flows.commit.exact_offset_journals import PARTITION, ExactOffsetJournals
from flows.partition.replicator import PartitionReplicator
from mm2.core.lanes.lease import ExactOffsetsLease
from mm2.core.offsets.exact_offset_journal import ExactOffsetJournal
from mm2.core.offsets.exact_offset_records import Segment
from mm2.kafka.errors import ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import ControlProducer

log = logging.getLogger(__name__)

THROTTLED_FOR_LONG_S = 30.0
"""Throttling by a quota is reported after this long: a broker averages over eleven seconds (quota.window.num), so a
burst is throttled for about that time."""


class ExactOffsetWriter(ExactOffsetJournals):
    """Writes changed segments before the source offsets of their records.

    A failed write delays nothing. Failed segments are sent again by the next `write`, at most one per partition.

    (A) A partition's segments are written in the order of its journal, those of one `write` at a time.
    (B) `write` sends everything that was reported before it, except for partitions with an earlier write in flight.
    (C) Nothing is written for a partition that ``needs_initial_commit``: if the lane ends before the commit, the
        segments still refer to the replaced topic, and the next lane starts at the beginning of the new topic as well.
        Likewise, they still have the leader epochs from before a truncation, which the next lane detects again.
    """

    def __init__(self, producer: ControlProducer, lease: ExactOffsetsLease) -> None:
        super().__init__(lease)
        self._producer = producer
        self._writing: dict[PartitionReplicator, asyncio.Future[int]] = {}
        self._timed_out = False

    def remove(self, partition: PartitionReplicator) -> None:
        """The partition has left the source task."""
        super().remove(partition)
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
                    written = self._producer.send(self._topic, PARTITION, segment.key(), segment.value())
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
                self._log_failure(str(self._producer.last_error or f"not written within {timeout:.0f} s"))

    def _written(
        self, partition: PartitionReplicator, journal: ExactOffsetJournal, segment: Segment, done: asyncio.Future[int]
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

    def _failed(self, partition: PartitionReplicator, journal: ExactOffsetJournal, error: BaseException) -> None:
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
