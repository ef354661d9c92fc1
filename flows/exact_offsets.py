"""Exact offsets: where every acknowledged batch went, written down for translation without loss (docs/adr/0003)."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from dataclasses import replace
from functools import partial

from flows.batch.outgoing import Outgoing
from flows.copy import PartitionCopy
from flows.surroundings import Seen
from mm2.core.exact_offset_journal import ExactOffsetJournal
from mm2.core.exact_offset_records import Segment, decode_segment, segment_key
from mm2.core.formats import FormatError
from mm2.core.lease import ExactOffsetsLease, PartitionLease
from mm2.core.names import TopicPartition
from mm2.kafka.control_producer import ControlProducer
from mm2.kafka.errors import ClusterClosed, ClusterError

log = logging.getLogger("mm2.exact_offsets")

_PARTITION = 0  # the topic has one, since the order of its records counts

THROTTLED_FOR_LONG_S = 30.0
"""A quota that holds records up for less is no trouble: a broker looks back over eleven seconds (quota.window.num), so
a burst is forgiven in about that time, and copying is slowed all the same."""


class ExactOffsets:
    """Keeps a journal of each partition and writes what changed.

    What cannot be written holds nothing up: copying goes on and source offsets are stored. That is safe, since the map
    says nothing of offsets it does not hold: they are translated as Java does it, and no later than the ranges around
    them allow. What fails is given again at the next `write`, at most a segment a partition.

    (A) A partition's segments are written in the order of its journal, those of one `write` at a time.
    (B) What `write` hands over covers all that was reported before it, unless an earlier one is still under way.
    (C) Nothing is written of a copy that begins a topic made anew until that beginning is stored: should the lane end
        before, the segments still name the topic that is gone, and the next lane begins anew as well.
    """

    def __init__(self, producer: ControlProducer, lease: ExactOffsetsLease) -> None:
        self._producer = producer
        self._topic = lease.topic
        self._slots = lease.slots
        self._journals: dict[PartitionCopy, ExactOffsetJournal] = {}
        self._left: dict[TopicPartition, Segment] = {}
        self._changed: set[PartitionCopy] = set()
        self._writing: dict[PartitionCopy, asyncio.Future[int]] = {}
        self._late = False
        self.trouble: str | None = None

    def begin(self, copy: PartitionCopy, lease: PartitionLease) -> None:
        """The slot copies this partition from now on."""
        last = self._last(copy.source, lease)
        self._journals[copy] = ExactOffsetJournal(copy.source, topic_ids=copy.topic_ids, last=last, slots=self._slots)
        self._changed.add(copy)

    def _last(self, partition: TopicPartition, lease: PartitionLease) -> Segment | None:
        """The newest segment: the lease's, unless this slot had the partition before and has a newer one."""
        left = self._left.pop(partition, None)
        if lease.last_segment is None:
            return left
        try:
            leased = decode_segment(segment_key(partition, 0), b64decode(lease.last_segment))
        except (FormatError, ValueError) as error:  # the node decoded it before: only another version says no
            log.warning("%s: the last segment of %s cannot be read: %s", self._topic, partition, error)
            return left
        if leased is None or (left is not None and left.sequence >= leased.sequence):
            return left
        return replace(leased, slot=leased.sequence % self._slots)

    def acknowledged(self, copy: PartitionCopy, batch: Outgoing, base_offset: int, seen: Seen) -> None:
        """The target has a batch; ``base_offset`` is -1 if it does not say where."""
        journal = self._journals[copy]
        if base_offset >= 0:
            journal.acked(batch.runs, base_offset, since=seen.since, until=seen.until)
        else:
            journal.acked_somewhere(until=seen.until)
        self._changed.add(copy)

    def passed(self, copy: PartitionCopy, seen: Seen) -> None:
        """Source offsets that carry no record were gone over."""
        journal = self._journals.get(copy)
        if journal is not None:  # else it left meanwhile
            journal.passed(seen.since, seen.until)
            self._changed.add(copy)

    def identified(self, copy: PartitionCopy) -> None:
        """The copy's ``topic_ids`` are others than before."""
        journal = self._journals.get(copy)
        if journal is not None:
            journal.identify(copy.topic_ids)
            self._changed.add(copy)

    def forget(self, copy: PartitionCopy) -> None:
        """The partition has left the slot."""
        journal = self._journals.pop(copy, None)
        if journal is not None:
            self._left[copy.source] = journal.newest
        self._changed.discard(copy)
        self._forgive()

    def write(self) -> None:
        """Hand over what changed and is not being written."""
        for copy in [copy for copy in self._changed if copy not in self._writing and not copy.begins_anew]:
            self._changed.discard(copy)
            journal = self._journals[copy]
            for segment in journal.unwritten():
                try:
                    written = self._producer.send(self._topic, _PARTITION, segment.key(), segment.value())
                except ClusterError as error:
                    self._failed(copy, journal, error)
                    return
                self._writing[copy] = written  # the last one: they are written in order
                written.add_done_callback(partial(self._written, copy, journal, segment))

    async def settle(self, timeout: float) -> None:
        """Wait until what is being written is there, ``timeout`` seconds at most. After one such wait was in vain there
        is no other until something was written: a topic that is gone must not hold up source offsets each time.

        What a quota of the target holds up comes by itself, and is no trouble unless it takes long.
        """
        if self._writing and not self._late:
            throttled = self._producer.throttled
            _, late = await asyncio.wait(list(self._writing.values()), timeout=timeout)
            if late and throttled > THROTTLED_FOR_LONG_S:
                self._lament(f"throttled by the target's quota for {throttled:.0f} s")
            elif late and not throttled and not self._producer.throttled:
                self._late = True
                self._lament(str(self._producer.trouble or f"not written after {timeout:.0f} s"))

    def _written(
        self, copy: PartitionCopy, journal: ExactOffsetJournal, segment: Segment, done: asyncio.Future[int]
    ) -> None:
        if self._writing.get(copy) is done:
            del self._writing[copy]
        error = None if done.cancelled() else done.exception()
        if isinstance(error, ClusterClosed) or done.cancelled():
            return
        if error is not None:
            self._failed(copy, journal, error)
            return
        journal.written(segment)
        self._late = False
        if self.trouble is not None:
            log.info("%s can be written again", self._topic)
            self.trouble = None

    def _failed(self, copy: PartitionCopy, journal: ExactOffsetJournal, error: BaseException) -> None:
        journal.refused()
        if copy not in self._journals:  # it has left: nobody tries again
            self._forgive()
            return
        self._changed.add(copy)
        self._lament(str(error))

    def _forgive(self) -> None:
        """There is no trouble with what nobody wants to write any more."""
        if not (self._changed or self._writing):
            self.trouble = None

    def _lament(self, words: str) -> None:
        sentence = (
            f"write exact offsets to {self._topic}: {words}; copying goes on, and until this works the offsets of new"
            " records are translated as Java does it"
        )
        if sentence != self.trouble:
            log.warning("%s", sentence)
        self.trouble = sentence
