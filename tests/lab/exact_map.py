"""Check of the exact offset map for every source offset, from the records that the independent client reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import Segment, decode_segment
from mm2.core.offsets.exact_offsets import Bounded, Found, PartitionOffsets
from mm2.core.offsets.segment_index import LoadedSegments
from tests.lab.history import Content, Record, read_topic

ALL = 1 << 30
"""So many segments stay loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationCoverage:
    """Source offsets, from 0 to the end of the copied records, by their translation."""

    exact: frozenset[int]
    conservative: frozenset[int]


def read_segments(bootstrap: str, topic: str) -> dict[TopicPartition, list[Segment]]:
    """Return the segments of each source partition in the order of the topic."""
    found: defaultdict[TopicPartition, list[Segment]] = defaultdict(list)
    for record in read_topic(bootstrap, topic)[0]:
        key, value, _, _ = record.content
        segment = decode_segment(key, value)
        if segment is not None:
            found[segment.topic_partition].append(segment)
    return dict(found)


def fold(segments: Iterable[Segment]) -> PartitionOffsets:
    """Return the map after these segments, all of which are in memory."""
    partition = PartitionOffsets(LoadedSegments(kept=ALL))
    for place, segment in enumerate(segments):
        partition.apply(segment, place)
    return partition


def judge(segments: Iterable[Segment], source: Sequence[Record], remote: Sequence[Record]) -> TranslationCoverage:
    """Check a partition that is copied to its end. Raises AssertionError.

    An exact translation is the next source record on the target, in one of its copies, or directly after the last one,
    and no translation misses a record. Contents must distinguish records."""
    partition = fold(segments)
    places: defaultdict[Content, list[int]] = defaultdict(list)
    for one in remote:
        places[one.content].append(one.offset)
    copied = [one for one in source if one.content in places]
    ends = [at + 1 for at in places[copied[-1].content]] if copied else [0]
    exact, conservative = set(), set()
    latest = ends[-1]  # the last offset from which on nothing is missed
    following: Record | None = None
    for upstream in range(source[-1].offset + 1 if source else 0, -1, -1):
        if copied and copied[-1].offset == upstream:
            following = copied.pop()
            latest = min(latest, places[following.content][-1])
        answer = partition.look_up(upstream)
        match answer:
            case Found(offset=offset):
                right = ends if following is None else places[following.content]
                assert offset in right, f"{upstream} is said to be at {offset}, {following} is at {right}"
                exact.add(upstream)
            case Bounded(least=least):
                offset = least or 0
                conservative.add(upstream)
        assert offset <= latest, f"{upstream} is said to be at {offset}: {following} at {latest} would be missed"
    return TranslationCoverage(exact=frozenset(exact), conservative=frozenset(conservative))
