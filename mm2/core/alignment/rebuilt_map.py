"""The segments of an exact offset map that was rebuilt by content, and what may be replaced by it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mm2.core.alignment.aligner import Alignment
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedUpTo
from mm2.core.offsets.exact_offset_journal import ExactOffsetJournal
from mm2.core.offsets.exact_offset_records import Segment, TopicIds, decode_key, decode_segment
from mm2.core.offsets.leader_epochs import EpochStarts

_WRITTEN_AT_ONCE = 256
"""Ranges after which full segments are taken from the journal, which keeps 32 of at least 24 ranges each."""


@dataclass(slots=True, kw_only=True)
class StoredMap:
    """The records of one source partition in the exact offsets topic, fed in their order.

    ``keys``: the keys of all records that are not deleted, also of those that cannot be read. ``newest``: the readable
    segment with the highest sequence. ``version`` changes with each record.
    """

    partition: TopicPartition
    keys: set[bytes] = field(default_factory=set)
    newest: Segment | None = None
    version: int = 0
    era: int = -1
    sequence: int = -1

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Apply a record of any partition. Raises FormatError if it cannot be read, after it was counted."""
        found = decode_key(key)
        if found.topic_partition != self.partition or key is None:
            return
        self.version += 1
        self.era, self.sequence = max(self.era, found.era), max(self.sequence, found.sequence)
        if value is None:
            self.keys.discard(key)
            return
        self.keys.add(key)
        segment = decode_segment(key, value)
        if segment is not None and (self.newest is None or segment.sequence >= self.newest.sequence):
            self.newest = segment

    def may_continue(self, topic_ids: TopicIds) -> bool:
        """Return False if the map is that of a source topic that was deleted: its stored offsets are those, too.

        A leader that has not noticed yet must find the former ID (docs/adr/0003).
        """
        return self.newest is None or TopicIds(source=topic_ids.source).may_be(self.newest.topic_ids)

    def epochs(self, topic_ids: TopicIds) -> EpochStarts:
        """Return the leader epochs of the source's records, as far as the map has them."""
        if self.newest is None or self.newest.topic_ids.source != topic_ids.source:
            return ()
        return self.newest.epochs


def rebuilt_segments(
    stored: StoredMap, alignment: Alignment, topic_ids: TopicIds, *, source_end: int
) -> tuple[Segment, ...]:
    """Return the segments to write, in order; none if nothing was found.

    They are a new era: readers discard all others with the first of them, and lanes continue the last one, as its
    sequence is the highest. ``source_end``: where reading the source ended.
    """
    if not alignment.ranges:
        return ()
    begin = Segment(
        topic_partition=stored.partition,
        sequence=stored.sequence + 1,
        era=stored.era + 1,
        topic_ids=topic_ids,
        before=CopiedUpTo(),
        through=-1,
        ranges=(),
    )
    journal = ExactOffsetJournal(stored.partition, topic_ids=topic_ids, last=begin)
    journal.set_epochs(stored.epochs(topic_ids))
    segments: dict[int, Segment] = {}

    def take() -> None:
        for segment in journal.unwritten():
            segments[segment.sequence] = segment
            journal.written(segment)

    for number, copied in enumerate(alignment.ranges, 1):
        since, until = copied.upstream - copied.hole, copied.upstream_end
        journal.acked(((copied.upstream, copied.records),), copied.downstream, since=since, until=until)
        if number % _WRITTEN_AT_ONCE == 0:
            take()
    if alignment.reaches_end:
        journal.passed(alignment.ranges[-1].upstream_end, max(source_end, alignment.ranges[-1].upstream_end))
    take()
    return tuple(segment for _, segment in sorted(segments.items()))


def outdated_keys(stored: StoredMap, written: Iterable[Segment]) -> list[bytes]:
    """Return the keys of the records that the written segments replace."""
    return sorted(stored.keys - {segment.key() for segment in written})
