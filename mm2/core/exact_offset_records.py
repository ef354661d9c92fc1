"""Records of ``mm2-exact-offsets.<source>.internal``: which source offsets became which target offsets, without loss.

A topic of our own on the target, compacted, one partition; Java leaves it alone (its name says so: KIP-1074). What the
target acknowledged of a source partition is written down as ranges in the order of the acknowledgements, in segments of
`SEGMENT_RANGES`. Only the last segment changes, and is written again as it grows. A partition has a fixed number of
slots, and segment n takes slot n mod that number: compaction leaves the last segments, and a restart finds them.

    key      version:INT16=0  topic:STRING  partition:INT32  slot:INT32
    value    version:INT16=0  sequence:INT64  era:INT32  source id:UUID  remote id:UUID
             upstream:INT64  downstream:INT64  doubt:INT64  through:INT64  count:UNSIGNED  range…
    range    step:UNSIGNED  ahead:UNSIGNED  records-1:UNSIGNED  hole:UNSIGNED

    STRING and INT as in `formats`; UUID 16 bytes, all zero for none; UNSIGNED as `formats.Fields.unsigned`
    step     from the end of the range before (0 for the first) to this one's first source offset, zigzag: 2s, or -2s-1
    ahead    the same for the target offset, which never steps back

So a partition copied without interruption is one record of about 100 bytes, and a full segment has a few hundred. Bytes
after the last field are ignored; a version other than 0 is refused. A null value takes the segment back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from mm2.core.formats import Fields, FormatError, encode_string, encode_unsigned, pack
from mm2.core.names import TopicPartition

SEGMENT_RANGES = 32  # what is decoded and encoded anew when one range is added: tens of microseconds
_INT64_MAX = 2**63 - 1


class CopiedRange(NamedTuple):
    """``records`` of the source, offset ``upstream`` on without a hole, became the target's from ``downstream`` on.

    ``hole``: so many source offsets right before ``upstream`` carry no record to copy (compacted, transaction markers,
    aborted, gone before they were copied). Of what lies before them the range says nothing.
    """

    upstream: int
    downstream: int
    records: int
    hole: int = 0

    @property
    def upstream_end(self) -> int:
        return self.upstream + self.records

    @property
    def downstream_end(self) -> int:
        return self.downstream + self.records


class TopicIds(NamedTuple):
    """Which source topic was copied into which remote topic (KIP-516); None where a broker has no topic ids."""

    source: UUID | None = None
    remote: UUID | None = None

    def may_be(self, other: TopicIds) -> bool:
        """False when one of the topics is known to be another one of the same name."""
        return all(mine is None or theirs is None or mine == theirs for mine, theirs in zip(self, other, strict=True))

    def completed_by(self, other: TopicIds) -> TopicIds:
        """These, and of ``other`` those that are not known here."""
        return TopicIds(self.source or other.source, self.remote or other.remote)


UNKNOWN_IDS = TopicIds()


class Reach(NamedTuple):
    """How far copying had come at some time, at the most; -1: nowhere yet.

    ``upstream``: the end of the source offsets gone over. ``downstream``: the end of the target offsets written down.
    ``doubt``: the target may hold up to so many records from ``upstream`` on of which nothing is written down, since a
    copier ended before it knew, or could tell.
    """

    upstream: int = -1
    downstream: int = -1
    doubt: int = 0

    def after(self, copied: CopiedRange) -> Reach:
        """How far copying had come after ``copied`` was.

        Target offsets in between are in doubt, but for one for each source offset that others may have copied there.
        """
        doubt = self.doubt
        if self.downstream >= 0:
            by_others = max(0, copied.upstream - copied.hole - self.upstream)
            doubt = max(doubt, copied.downstream - self.downstream - by_others)
        onward = copied.upstream_end - max(copied.upstream, self.upstream)
        return Reach(max(self.upstream, copied.upstream_end), copied.downstream_end, max(0, doubt - max(0, onward)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Some of the ranges copied from one source partition, in the order of their acknowledgement.

    ``sequence`` counts the partition's segments from 0. ``era`` rises when the source or the remote topic turned out to
    be another one than before, or the remote one to have lost its end: nothing of an earlier era holds any more.
    ``before``: how far this era had come before the first of these ranges. ``through``: all source offsets from the
    last range on to this one carry no record.
    """

    topic_partition: TopicPartition
    slot: int
    sequence: int
    era: int
    topic_ids: TopicIds
    before: Reach
    through: int
    ranges: tuple[CopiedRange, ...]

    def key(self) -> bytes:
        return segment_key(self.topic_partition, self.slot)

    def value(self) -> bytes:
        encoded = [
            pack(">hqi", 0, self.sequence, self.era),
            *((topic_id.bytes if topic_id else bytes(16)) for topic_id in self.topic_ids),
            pack(">qqqq", *self.before, self.through),
            encode_unsigned(len(self.ranges)),
        ]
        upstream = downstream = 0
        for copied in self.ranges:
            step = copied.upstream - upstream
            encoded += (
                encode_unsigned(2 * step if step >= 0 else -2 * step - 1),
                encode_unsigned(copied.downstream - downstream),
                encode_unsigned(copied.records - 1),
                encode_unsigned(copied.hole),
            )
            upstream, downstream = copied.upstream_end, copied.downstream_end
        return b"".join(encoded)


def segment_key(topic_partition: TopicPartition, slot: int) -> bytes:
    """The record key of ``slot`` of a source partition."""
    return pack(">h", 0) + encode_string(topic_partition.topic) + pack(">ii", topic_partition.partition, slot)


def decode_segment(key: bytes | None, value: bytes | None) -> Segment | None:
    """Read a record; None where it takes a segment back. Raises FormatError."""
    key_fields = Fields("exact offsets key", key)
    key_fields.version()
    topic_partition = TopicPartition(key_fields.string("topic"), key_fields.int32("partition"))
    slot = key_fields.int32("slot")
    if value is None:
        return None
    fields = Fields("exact offsets value", value)
    fields.version()
    return Segment(
        topic_partition=topic_partition,
        slot=slot,
        sequence=fields.int64("sequence"),
        era=fields.int32("era"),
        topic_ids=TopicIds(_uuid(fields), _uuid(fields)),
        before=Reach(fields.int64("upstream"), fields.int64("downstream"), fields.int64("doubt")),
        through=fields.int64("through"),
        ranges=_ranges(fields),
    )


def _uuid(fields: Fields) -> UUID | None:
    high, low = fields.int64("topic id"), fields.int64("topic id")
    return UUID(bytes=pack(">qq", high, low)) if high or low else None


def _ranges(fields: Fields) -> tuple[CopiedRange, ...]:
    ranges = []
    upstream = downstream = 0
    for _ in range(fields.unsigned("number of ranges")):
        step = fields.unsigned("step")
        upstream += -(step + 1) // 2 if step % 2 else step // 2
        downstream += fields.unsigned("ahead")
        copied = CopiedRange(upstream, downstream, fields.unsigned("records") + 1, fields.unsigned("hole"))
        if copied.upstream < copied.hole or max(copied.upstream_end, copied.downstream_end) > _INT64_MAX:
            raise FormatError(f"read exact offsets value: {copied} has offsets below 0 or beyond 64 bits")
        ranges.append(copied)
        upstream, downstream = copied.upstream_end, copied.downstream_end
    return tuple(ranges)
