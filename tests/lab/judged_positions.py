"""Judgement of translated positions by what an independent client reads from both topics."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import decode_segment
from mm2.core.offsets.exact_offsets import ExactOffsets
from mm2.core.offsets.segment_index import LoadedSegments
from mm2.core.positions.answer import PositionAnswer, Precision
from mm2.core.positions.map_positions import MapPositions
from tests.lab.exact_map import ALL
from tests.lab.history import Content, Record, read_topic

Ask = Callable[[int], PositionAnswer]
Counts = Counter[Precision]
"""The number of positions by the precision of their answers."""


def read_map(bootstrap: str, topic: str) -> MapPositions:
    """Return the positions that the exact map in ``topic`` answers, with all of its segments in memory."""
    offsets = ExactOffsets(LoadedSegments(kept=ALL))
    for record in read_topic(bootstrap, topic)[0]:
        segment = decode_segment(record.key, record.value)
        if segment is None:
            offsets.apply_record(record.key, None, record.offset)
        else:
            offsets.apply(segment, record.offset)
    return MapPositions(offsets)


class TwoTopics:
    """A source partition and its remote partition. Contents distinguish the records of the source.

    Records that only one side has do not count: the source has lost them, or they are not copied.
    """

    def __init__(
        self,
        partition: TopicPartition,
        source: Sequence[Record],
        remote: Sequence[Record],
        *,
        compacted: bool = False,
    ) -> None:
        """``compacted``: the remote topic has lost some of its copies, too."""
        self._compacted = compacted
        self.topic = partition.topic
        self.source_end = source[-1].offset + 1 if source else 0
        self.remote_end = remote[-1].offset + 1 if remote else 0
        self._name = f"{partition.topic}-{partition.partition}"
        self._source = {one.content: one.offset for one in source}
        assert len(self._source) == len(source), f"{self._name} has equal records"
        self._records = {one.offset: one.content for one in source}
        self._remote = {one.offset: one.content for one in remote}
        self._copies = [one for one in remote if one.content in self._source]
        self._copied_at: defaultdict[Content, list[int]] = defaultdict(list)
        for one in self._copies:
            self._copied_at[one.content].append(one.offset)
        self._copied = [one for one in source if one.content in self._copied_at]
        last_copies = [self._copied_at[one.content][-1] for one in reversed(self._copied)]
        self._least_copies = list(accumulate(last_copies, min))[::-1]
        first_copies = sorted((self._copied_at[one.content][0], one.offset) for one in self._copied)
        self._first_copies = [at for at, _ in first_copies]
        self._least_sources = list(accumulate((upstream for _, upstream in reversed(first_copies)), min))[::-1]

    def judge_to_target(self, positions: Iterable[int], ask: Ask) -> Counts:
        """Check the target positions of source positions. Raises AssertionError. An unknown one is conservative."""
        counts: Counts = Counter()
        for position in positions:
            answer = ask(position)
            counts[answer.precision] += 1
            case = f"{self._name}: source {position} is said to be {answer}"
            if answer.offset is None:  # before what the map has
                assert answer.precision is Precision.CONSERVATIVE, case
                continue
            at = bisect_left(self._copied, position, key=lambda one: one.offset)
            following = self._copied[at] if at < len(self._copied) else None
            if following is not None:
                assert answer.offset <= self._least_copies[at], f"{case}: {self._copied[at].offset} is skipped"
            match answer.precision:
                case Precision.EXACT:
                    expected = self._records.get(position)
                    here = self._remote.get(answer.offset)
                    assert expected is None or here == expected or (here is None and self._compacted), case
                case Precision.NEXT:
                    assert following is not None, case
                    assert following.offset > position, case
                    number = bisect_left(self._copies, answer.offset, key=lambda one: one.offset)
                    read = self._copies[number].content
                    assert read == following.content, f"{case}: next is {following}"
                    assert self._compacted or answer.offset in self._copied_at[read], f"{case}: next is {following}"
                case Precision.END | Precision.AHEAD:
                    assert following is None, f"{case}: next is {following}"
        return counts

    def judge_to_source(self, positions: Iterable[int], ask: Ask) -> Counts:
        """Check the source positions of target positions, in the same way."""
        counts: Counts = Counter()
        for position in positions:
            answer = ask(position)
            counts[answer.precision] += 1
            case = f"{self._name}: target {position} is said to be {answer}"
            if answer.offset is None:  # before what the map has
                assert answer.precision is Precision.CONSERVATIVE, case
                continue
            at = bisect_left(self._first_copies, position)
            least = self._least_sources[at] if at < len(self._first_copies) else None
            assert least is None or answer.offset <= least, f"{case}: {least} is skipped"
            match answer.precision:
                case Precision.EXACT:
                    here = self._remote.get(position)
                    if here is None:
                        assert self._compacted, case
                        continue
                    assert self._source.get(here, answer.offset) == answer.offset, f"{case}: it is {self._source[here]}"
                    assert self._records.get(answer.offset, here) == here, f"{case}: the source has another record"
                case Precision.NEXT:
                    number = bisect_left(self._copies, position, key=lambda one: one.offset)
                    assert number < len(self._copies), case
                    following = self._source[self._copies[number].content]
                    copied = bisect_left(self._copied, answer.offset, key=lambda one: one.offset)
                    assert self._copied[copied].offset == following, f"{case}: next is {following}"
                case Precision.END | Precision.AHEAD:
                    assert least is None, f"{case}: next is {least}"
        return counts


def summary(direction: str, counts: Counts) -> str:
    """Return the counts as a line of text."""
    return f"{direction}: " + ", ".join(f"{counts[precision]} {precision}" for precision in Precision)
