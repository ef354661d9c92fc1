"""Records of ``mm2-exact-offsets.<source>.internal``: the exact map from source offsets to target offsets.

The topic is on the target, compacted, with one partition; Java does not replicate it because of its name (KIP-1074).
The acknowledged records of a source partition are stored as ranges in the order of the acknowledgements, in segments of
limited size. Each segment has a key of its own. Only the last segment of a partition changes, and is written again as
it grows. The leader deletes segments that are not needed any more (`map_retention`).

    key      version:INT16=1  topic:STRING  partition:INT32  era:INT32  sequence:INT64
    value    head  count:UNSIGNED  range…  count:UNSIGNED  epoch…  count:UNSIGNED  producer…
             size:UNSIGNED  [packed ranges  checksum:INT32]
    head     version:INT16=1  flags:INT8  source id:UUID  remote id:UUID  upstream:INT64  downstream:INT64  doubt:INT64
             first source:INT64  first target:INT64  source end:INT64  target end:INT64  first hole:INT64
             through:INT64  truncated:INT64
    range    step:UNSIGNED  ahead:UNSIGNED  records-1:UNSIGNED  hole:UNSIGNED
    epoch    step of the epoch:UNSIGNED  step of the offset:UNSIGNED
    producer id:UNSIGNED  epoch:UNSIGNED

    STRING and INT as in `formats`; UUID 16 bytes, all zero for none; UNSIGNED as `formats.Fields.unsigned`
    flags    1: the segment is clean (`Segment.clean`); 2: the segment before this one could not be read when this one
             began
    first …  the bounds of all ranges (`SegmentHead`), so that a reader need not decode them; -1 if there are none
    step     from the end of the previous range (0 for the first) to this range's first source offset, zigzag: 2s, or
             -2s-1
    ahead    the same for the target offset, which never steps back
    epoch    a leader epoch and the source offset of its first record, each as the step from the entry before (0 for the
             first)
    packed   the ranges before the first ``range``, if there are too many: tokens:UNSIGNED  base:UNSIGNED
    ranges   upstream:UNSIGNED  downstream:UNSIGNED  hole:UNSIGNED  source offsets:UNSIGNED  target offsets:UNSIGNED
             columns (`packed_ranges`); the checksum is the CRC-32 of all this; size 0: there are none

A partition copied without interruption is one record of about 150 bytes; one with `SEGMENT_RANGES` ranges has a few
hundred. If there are more, all but the last ones are packed; a full segment has about 1,400 bytes. Ranges are packed
only if they are clean (`PackedRanges`) and continue ``before``.

Versions: bytes after the last field are ignored. A later version keeps the fields of the key, and may add others after
them. A record with another version, or that cannot be read, is a gap in the map of its partition: see `SegmentKey`. A
null value deletes the segment.
"""

from __future__ import annotations

import binascii
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID
from zlib import crc32

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import NO_PROGRESS, CopiedRange, CopiedUpTo
from mm2.core.offsets.leader_epochs import MAX_EPOCHS, EpochStart, EpochStarts
from mm2.core.offsets.packed_ranges import PackedRanges, read_packed
from mm2.core.wire.formats import Fields, FormatError, encode_string, encode_unsigned, pack

VERSION = 1

SEGMENT_RANGES = 32
"""The most ranges of a segment that are not packed."""

MAX_PRODUCERS = 16
"""Producers kept of a segment, the last ones. A source task gets another one after an error or a day, and a segment of
a partition without gaps lasts as long as the partition."""

UNREADABLE = -1
"""The era and the sequence of a key from which they cannot be read."""

_INT64_MAX = 2**63 - 1
_NO_EPOCHS = EpochStart(0, 0)
_HEAD = struct.Struct(">hB16s16s10q")
_CLEAN, _AFTER_GAP = 1, 2
_NO_UUID = bytes(16)


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


class ProducerEpoch(NamedTuple):
    """The producer id and epoch with which a source task wrote batches: others wrote what has another one."""

    producer_id: int
    epoch: int


class SegmentKey(NamedTuple):
    """The key of a segment. ``era`` and ``sequence`` are `UNREADABLE` in keys of other versions without them.

    A value that cannot be read is a gap at this place: ranges before and after it are not connected, so positions in
    between are translated conservatively. Writers continue with the next sequence of the era.
    """

    topic_partition: TopicPartition
    era: int
    sequence: int

    def encode(self) -> bytes:
        name = encode_string(self.topic_partition.topic)
        return pack(">h", VERSION) + name + pack(">iiq", self.topic_partition.partition, self.era, self.sequence)


class SegmentHead(NamedTuple):
    """What a reader needs of a segment to place it in the map.

    ``upstream`` and ``upstream_end`` are the lowest source offset of all ranges and the end of the highest one,
    ``downstream`` and ``downstream_end`` those of the target; -1 if the segment has no ranges. ``hole`` is that of the
    first range. ``clean``, ``before``, ``through``, ``truncated`` and ``after_gap`` as in `Segment`.
    """

    clean: bool
    after_gap: bool
    topic_ids: TopicIds
    before: CopiedUpTo
    upstream: int
    downstream: int
    upstream_end: int
    downstream_end: int
    hole: int
    through: int
    truncated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Consecutive ranges copied from one source partition, in the order of their acknowledgement.

    ``sequence`` counts the partition's segments from 0. ``era`` increases when the source or the remote topic was
    recreated, or the remote topic was truncated: ranges of an earlier era are void. ``before``: the progress of this
    era before the first of these ranges. ``through``: all source offsets from the last range up to this one carry no
    record. ``truncated``: before the first of these ranges, the source lost its records from this offset on (-1: it did
    not). ``epochs``: the leader epochs of the copied records, as far as they are known. ``packed``: ranges before
    ``ranges``, which has the last ones. ``producers``: the last producers of the batches. ``after_gap``: the segment
    before this one could not be read when this one began.
    """

    topic_partition: TopicPartition
    sequence: int
    era: int
    topic_ids: TopicIds
    before: CopiedUpTo
    through: int
    ranges: tuple[CopiedRange, ...]
    truncated: int = -1
    epochs: EpochStarts = ()
    packed: PackedRanges | None = None
    producers: tuple[ProducerEpoch, ...] = ()
    after_gap: bool = False

    @property
    def end(self) -> int:
        """The source offset before which everything was processed when the segment was written; -1: unknown."""
        return max(self.ranges[-1].upstream_end, self.through) if self.ranges else self.before.upstream

    @property
    def progress(self) -> CopiedUpTo:
        """The progress after all ranges."""
        reach = self.before if self.packed is None else self.packed.progress_after(self.before)
        for copied in self.ranges:
            reach = reach.after(copied)
        return reach

    @property
    def clean(self) -> bool:
        """Whether the ranges continue ``before`` and each other: no record is repeated, and none is in doubt. Between
        them, all source offsets are holes."""
        upstream, downstream, doubt = self.before
        end = -1  # of the range before
        if doubt:
            return False
        if self.packed is not None:
            if not self.packed.follows(self.before):
                return False
            upstream = end = self.packed.upstream_end
            downstream = self.packed.downstream_end
        for copied in self.ranges:
            start = copied.upstream - copied.hole
            unexplained = copied.downstream - downstream - max(0, start - upstream)  # as `CopiedUpTo.after`
            if copied.upstream < upstream or 0 <= end < start or (downstream >= 0 and unexplained > copied.records):
                return False
            upstream = end = copied.upstream_end
            downstream = copied.downstream_end
        return True

    @property
    def head(self) -> SegmentHead:
        """What is encoded at the start of the value."""
        upstream = downstream = upstream_end = downstream_end = -1
        hole = 0
        parts = [*(() if self.packed is None else (self.packed,)), *self.ranges]
        if parts:
            upstream, upstream_end = min(one.upstream for one in parts), max(one.upstream_end for one in parts)
            downstream, downstream_end = parts[0].downstream, parts[-1].downstream_end
            hole = parts[0].hole
        return SegmentHead(
            clean=self.clean,
            after_gap=self.after_gap,
            topic_ids=self.topic_ids,
            before=self.before,
            upstream=upstream,
            downstream=downstream,
            upstream_end=upstream_end,
            downstream_end=downstream_end,
            hole=hole,
            through=self.through,
            truncated=self.truncated,
        )

    def all_ranges(self) -> Iterator[CopiedRange]:
        """Yield all ranges in the order of their acknowledgement. Raises FormatError, see `PackedRanges`."""
        if self.packed is not None:
            yield from self.packed.ranges()
        yield from self.ranges

    def key(self) -> bytes:
        return SegmentKey(self.topic_partition, self.era, self.sequence).encode()

    def value(self) -> bytes:
        encoded = [_encode_head(self.head), encode_unsigned(len(self.ranges))]
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
        encoded.append(encode_unsigned(len(self.epochs)))
        last = _NO_EPOCHS
        for start in self.epochs:
            encoded += (encode_unsigned(start.epoch - last.epoch), encode_unsigned(start.offset - last.offset))
            last = start
        encoded.append(encode_unsigned(len(self.producers)))
        for producer in self.producers:
            encoded += (encode_unsigned(producer.producer_id), encode_unsigned(producer.epoch))
        packed = b"" if self.packed is None else self.packed.encode()
        encoded += (encode_unsigned(len(packed)), packed)
        if packed:
            encoded.append(pack(">I", crc32(packed)))
        return b"".join(encoded)


def decode_key(key: bytes | None) -> SegmentKey:
    """Read a key of any version. Raises FormatError if it has no source partition."""
    fields = Fields("exact offsets key", key)
    version = fields.int16("version")
    topic_partition = TopicPartition(fields.string("topic"), fields.int32("partition"))
    if version < VERSION:
        return SegmentKey(topic_partition, UNREADABLE, UNREADABLE)
    era, sequence = fields.int32("era"), fields.int64("sequence")
    if era < 0 or sequence < 0:
        raise FormatError(f"cannot read exact offsets key: era {era} or sequence {sequence} is below 0")
    return SegmentKey(topic_partition, era, sequence)


def decode_head(key: bytes | None, value: bytes) -> SegmentHead:
    """Read the start of a value. Raises FormatError, also if the version of the key or the value is not supported."""
    for what, data in (("key", key), ("value", value)):
        version = Fields(f"exact offsets {what}", data).int16("version")
        if version != VERSION:
            raise FormatError(f"cannot read exact offsets {what}: version {version} is not supported, only {VERSION}")
    if len(value) < _HEAD.size:
        raise FormatError(f"cannot read exact offsets value: data ends after {len(value)} bytes")
    _, flags, source, remote, *numbers = _HEAD.unpack_from(value)
    upstream, downstream, doubt, first, first_target, end, target_end, hole, through, truncated = numbers
    before = CopiedUpTo(upstream, downstream, doubt)
    if first_target >= 0 and not (0 <= first < end and first_target < target_end and hole >= 0):
        raise FormatError("cannot read exact offsets value: its ranges do not end after their start")
    return SegmentHead(
        clean=bool(flags & _CLEAN),
        after_gap=bool(flags & _AFTER_GAP),
        topic_ids=UNKNOWN_IDS if source == remote == _NO_UUID else TopicIds(_uuid(source), _uuid(remote)),
        before=NO_PROGRESS if before == NO_PROGRESS else before,
        upstream=first,
        downstream=first_target,
        upstream_end=end,
        downstream_end=target_end,
        hole=hole,
        through=through,
        truncated=truncated,
    )


def decode_segment(key: bytes | None, value: bytes | None) -> Segment | None:
    """Read a record; None if it deletes a segment. Raises FormatError."""
    topic_partition, era, sequence = decode_key(key)
    if value is None:
        return None
    head = decode_head(key, value)
    fields = Fields("exact offsets value", value)
    fields.raw("head", _HEAD.size)
    segment = Segment(
        topic_partition=topic_partition,
        sequence=sequence,
        era=era,
        topic_ids=head.topic_ids,
        before=head.before,
        through=head.through,
        ranges=_ranges(fields),
        truncated=head.truncated,
        epochs=_epochs(fields),
        producers=_producers(fields),
        packed=_packed(fields),
        after_gap=head.after_gap,
    )
    if segment.head != head:
        raise FormatError("cannot read exact offsets value: the ranges are not those of its head")
    return segment


def segment_text(key: bytes, value: bytes) -> str:
    """Return a record as it is sent in a lease."""
    return f"{b64encode(key).decode()} {b64encode(value).decode()}"


def segment_from_text(text: str) -> Segment:
    """Read what `segment_text` returned. Raises FormatError."""
    key, _, value = text.partition(" ")
    try:
        segment = decode_segment(b64decode(key, validate=True), b64decode(value, validate=True))
    except binascii.Error as error:
        raise FormatError(f"cannot read exact offsets: {error}") from None
    assert segment is not None
    return segment


def after_gap(gap: SegmentKey, last: Segment | None) -> Segment:
    """Return what a journal continues if the partition's newest segment, or its key, cannot be read.

    ``last`` is the newest segment before it that was read. Of its era, the progress is known up to there, so that what
    the unreadable segment may contain is in doubt. Without it, the copier before is assumed to have stopped in order.
    """
    known = last if last is not None and last.era >= gap.era else None
    return Segment(
        topic_partition=gap.topic_partition,
        sequence=max(gap.sequence, UNREADABLE if last is None else last.sequence) + 1,
        era=max(gap.era, 0) if known is None else known.era,
        topic_ids=UNKNOWN_IDS if known is None else known.topic_ids,
        before=CopiedUpTo() if known is None else known.progress,
        through=-1,
        ranges=(),
        after_gap=True,
    )


def _encode_head(head: SegmentHead) -> bytes:
    flags = (_CLEAN if head.clean else 0) | (_AFTER_GAP if head.after_gap else 0)
    source, remote = (_NO_UUID if topic_id is None else topic_id.bytes for topic_id in head.topic_ids)
    bounds = head.upstream, head.downstream, head.upstream_end, head.downstream_end, head.hole
    try:
        return _HEAD.pack(VERSION, flags, source, remote, *head.before, *bounds, head.through, head.truncated)
    except struct.error as error:
        raise FormatError(f"{head} does not fit: {error}") from None


def _uuid(data: bytes) -> UUID | None:
    return None if data == _NO_UUID else UUID(bytes=data)


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


def _producers(fields: Fields) -> tuple[ProducerEpoch, ...]:
    count = min(fields.unsigned("number of producers"), MAX_PRODUCERS)
    return tuple(ProducerEpoch(fields.unsigned("producer id"), fields.unsigned("producer epoch")) for _ in range(count))


def _packed(fields: Fields) -> PackedRanges | None:
    size = fields.unsigned("size of the packed ranges")
    if size == 0:
        return None
    data = fields.raw("packed ranges", size)
    if pack(">i", fields.int32("checksum")) != pack(">I", crc32(data)):
        raise FormatError("cannot read exact offsets value: the packed ranges do not match their checksum")
    return read_packed(data)
