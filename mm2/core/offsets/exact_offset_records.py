"""Records of ``mm2-exact-offsets.<source>.internal``: the exact map from source offsets to target offsets.

The topic is on the target, compacted, with one partition; Java does not replicate it because of its name (KIP-1074).
The acknowledged records of a source partition are stored as ranges in the order of the acknowledgements, in segments of
limited size. Only the last segment changes, and is written again as it grows. A partition has a fixed number of
keys, and segment n has the key with index n mod that number: compaction keeps the last segments, and a restart reads
them.

    key      version:INT16=0  topic:STRING  partition:INT32  index:INT32
    value    version:INT16=0  sequence:INT64  era:INT32  source id:UUID  remote id:UUID
             upstream:INT64  downstream:INT64  doubt:INT64  through:INT64  count:UNSIGNED  range…
             [truncated+1:UNSIGNED  count:UNSIGNED  epoch…  [size:UNSIGNED  packed ranges  checksum:INT32]]
    range    step:UNSIGNED  ahead:UNSIGNED  records-1:UNSIGNED  hole:UNSIGNED
    epoch    step of the epoch:UNSIGNED  step of the offset:UNSIGNED

    STRING and INT as in `formats`; UUID 16 bytes, all zero for none; UNSIGNED as `formats.Fields.unsigned`
    step     from the end of the previous range (0 for the first) to this range's first source offset, zigzag: 2s, or
             -2s-1
    ahead    the same for the target offset, which never steps back
    epoch    a leader epoch and the source offset of its first record, each as the step from the entry before (0 for the
             first)
    packed   the ranges before the first ``range``, if there are too many: tokens:UNSIGNED  base:UNSIGNED
    ranges   upstream:UNSIGNED  downstream:UNSIGNED  hole:UNSIGNED  source offsets:UNSIGNED  target offsets:UNSIGNED
             columns (`packed_ranges`); the checksum is the CRC-32 of all this

A partition copied without interruption is one record of about 100 bytes; one with `SEGMENT_RANGES` ranges has a few
hundred. If there are more, all but the last ones are packed; a full segment has about 1,400 bytes. The fields in
brackets are missing if they and those after them are empty.

Ranges are packed only if they are clean (`PackedRanges`) and continue ``before``.
Bytes after the last field are ignored; a version other than 0 is rejected. A null value deletes the segment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import UUID
from zlib import crc32

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.leader_epochs import MAX_EPOCHS, EpochStart, EpochStarts
from mm2.core.offsets.packed_ranges import PackedRanges, read_packed
from mm2.core.wire.formats import Fields, FormatError, encode_string, encode_unsigned, pack

SEGMENT_RANGES = 32
"""The most ranges of a segment that are not packed."""

_INT64_MAX = 2**63 - 1
_NO_EPOCHS = EpochStart(0, 0)


class TopicIds(NamedTuple):
    """IDs of the source topic and its remote topic (KIP-516); None if a broker has no topic IDs."""

    source: UUID | None = None
    remote: UUID | None = None

    def may_be(self, other: TopicIds) -> bool:
        """Return False if one of the topics is known to be a different one of the same name."""
        return all(mine is None or theirs is None or mine == theirs for mine, theirs in zip(self, other, strict=True))

    def completed_by(self, other: TopicIds) -> TopicIds:
        """Return these IDs, with unknown ones taken from ``other``."""
        return TopicIds(self.source or other.source, self.remote or other.remote)


UNKNOWN_IDS = TopicIds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Consecutive ranges copied from one source partition, in the order of their acknowledgement.

    ``sequence`` counts the partition's segments from 0. ``era`` increases when the source or the remote topic was
    recreated, or the remote topic was truncated: ranges of an earlier era are void. ``before``: the progress of this
    era before the first of these ranges. ``through``: all source offsets from the last range up to this one carry no
    record. ``truncated``: before the first of these ranges, the source lost its records from this offset on (-1: it did
    not). ``epochs``: the leader epochs of the copied records, as far as they are known. ``packed``: ranges before
    ``ranges``, which has the last ones.
    """

    topic_partition: TopicPartition
    index: int
    sequence: int
    era: int
    topic_ids: TopicIds
    before: CopiedUpTo
    through: int
    ranges: tuple[CopiedRange, ...]
    truncated: int = -1
    epochs: EpochStarts = ()
    packed: PackedRanges | None = None

    @property
    def end(self) -> int:
        """The source offset before which everything was processed when the segment was written; -1: unknown."""
        return max(self.ranges[-1].upstream_end, self.through) if self.ranges else self.before.upstream

    def key(self) -> bytes:
        return segment_key(self.topic_partition, self.index)

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
        if self.truncated < 0 and not self.epochs and self.packed is None:
            return b"".join(encoded)
        encoded += (encode_unsigned(self.truncated + 1), encode_unsigned(len(self.epochs)))
        last = _NO_EPOCHS
        for start in self.epochs:
            encoded += (encode_unsigned(start.epoch - last.epoch), encode_unsigned(start.offset - last.offset))
            last = start
        if self.packed is not None:
            packed = self.packed.encode()
            encoded += (encode_unsigned(len(packed)), packed, pack(">I", crc32(packed)))
        return b"".join(encoded)


def segment_key(topic_partition: TopicPartition, index: int) -> bytes:
    """Return one of the record keys of a source partition."""
    return pack(">h", 0) + encode_string(topic_partition.topic) + pack(">ii", topic_partition.partition, index)


def decode_segment(key: bytes | None, value: bytes | None) -> Segment | None:
    """Read a record; None if it deletes a segment. Raises FormatError."""
    key_fields = Fields("exact offsets key", key)
    key_fields.version()
    topic_partition = TopicPartition(key_fields.string("topic"), key_fields.int32("partition"))
    index = key_fields.int32("index")
    if value is None:
        return None
    fields = Fields("exact offsets value", value)
    fields.version()
    segment = Segment(
        topic_partition=topic_partition,
        index=index,
        sequence=fields.int64("sequence"),
        era=fields.int32("era"),
        topic_ids=TopicIds(_uuid(fields), _uuid(fields)),
        before=CopiedUpTo(fields.int64("upstream"), fields.int64("downstream"), fields.int64("doubt")),
        through=fields.int64("through"),
        ranges=_ranges(fields),
    )
    if not fields.left:
        return segment
    truncated = fields.unsigned("truncated") - 1
    return replace(segment, truncated=truncated, epochs=_epochs(fields), packed=_packed(fields))


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
            raise FormatError(f"cannot read exact offsets value: {copied} has offsets below 0 or beyond 64 bits")
        ranges.append(copied)
        upstream, downstream = copied.upstream_end, copied.downstream_end
    return tuple(ranges)


def _epochs(fields: Fields) -> EpochStarts:
    epochs = []
    last = _NO_EPOCHS
    for _ in range(min(fields.unsigned("number of epochs"), MAX_EPOCHS)):
        last = EpochStart(last.epoch + fields.unsigned("epoch"), last.offset + fields.unsigned("offset of the epoch"))
        epochs.append(last)
    return tuple(epochs)


def _packed(fields: Fields) -> PackedRanges | None:
    if not fields.left:
        return None
    data = fields.raw("packed ranges", fields.unsigned("size"))
    if pack(">i", fields.int32("checksum")) != pack(">I", crc32(data)):
        raise FormatError("cannot read exact offsets value: the packed ranges do not match their checksum")
    return read_packed(data)
