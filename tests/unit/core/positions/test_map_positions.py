"""Positions of a flow in both directions."""

from __future__ import annotations

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import Segment, SegmentKey, TopicIds
from mm2.core.offsets.exact_offsets import ExactOffsets
from mm2.core.offsets.offset_translation import NO_SYNC, Translated
from mm2.core.positions.answer import PositionAnswer, Precision
from mm2.core.positions.map_positions import MapPositions
from mm2.core.positions.source_to_target import Extent

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


def flow() -> tuple[ExactOffsets, MapPositions]:
    offsets = ExactOffsets()
    for place, partition in enumerate((TP, OTHER)):
        copied = CopiedRange(100, 7 + place, 50)
        ids = TopicIds()
        segment = Segment(
            topic_partition=partition,
            sequence=0,
            era=0,
            topic_ids=ids,
            before=CopiedUpTo(),
            through=-1,
            ranges=(copied,),
        )
        offsets.apply(segment, place)
    return offsets, MapPositions(offsets)


def test_both_directions_by_partition() -> None:
    _, positions = flow()
    for _ in range(2):
        assert positions.on_target(TP, 110).offset == 17
        assert positions.on_source(TP, 17).offset == 110
        assert positions.on_source(OTHER, 17).offset == 109


def test_partitions_that_the_map_does_not_have() -> None:
    _, positions = flow()
    unknown = TopicPartition("payments", 0)
    answer = positions.on_target(unknown, 5, by_syncs=Translated(offset=3, behind=1))
    assert (answer.offset, answer.precision) == (3, Precision.CONSERVATIVE)
    assert positions.on_target(unknown, 5).reason == f"the map does not have the partition; {NO_SYNC}"
    assert positions.on_source(unknown, 5, source=Extent(start=2)).offset == 2


def test_nothing_is_ahead_or_caught_up_while_the_newest_segments_cannot_be_read() -> None:
    offsets, positions = flow()
    assert positions.on_target(TP, 160).precision is Precision.AHEAD
    assert positions.on_source(TP, 57).precision is Precision.END
    offsets.partitions[TP].gap(SegmentKey(TP, 0, 1))
    reason = "the newest part of the map cannot be read"
    assert positions.on_target(TP, 160) == PositionAnswer(
        offset=57, precision=Precision.CONSERVATIVE, reason=reason, read_again=10
    )
    assert positions.on_source(TP, 57) == PositionAnswer(
        offset=150, precision=Precision.CONSERVATIVE, reason=reason, read_again=0
    )


def test_a_partition_of_which_nothing_can_be_read() -> None:
    offsets, positions = flow()
    offsets.partitions[TP].gap(SegmentKey(TP, 1, 1))
    answer = positions.on_target(TP, 110)
    assert (answer.offset, answer.reason) == (None, "nothing that the map has counts yet")
    assert positions.on_source(TP, 10).reason == "the map does not have the partition"
