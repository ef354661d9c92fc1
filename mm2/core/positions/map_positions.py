"""Positions of one flow in both directions, by its exact map."""

from __future__ import annotations

from collections.abc import Sequence

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedUpTo
from mm2.core.offsets.exact_offsets import ExactOffsets
from mm2.core.offsets.offset_translation import NO_SYNC, Translation
from mm2.core.positions.answer import PositionAnswer
from mm2.core.positions.source_to_target import UNKNOWN_CAUSES, UNKNOWN_EXTENT, Extent, HoleCauses, target_position
from mm2.core.positions.target_to_source import TargetOrder


class MapPositions:
    """Answers by the map ``offsets``, which can grow in between. Partitions are those of the source.

    Both methods raise SegmentNotLoaded: put the segment into ``offsets``, and ask again. Not safe for use by two
    threads.
    """

    def __init__(self, offsets: ExactOffsets) -> None:
        self._offsets = offsets
        self._orders: dict[TopicPartition, TargetOrder] = {}

    def on_target(
        self,
        partition: TopicPartition,
        offset: int,
        *,
        by_syncs: Translation = NO_SYNC,
        causes: HoleCauses = UNKNOWN_CAUSES,
        source: Extent = UNKNOWN_EXTENT,
        target: Extent = UNKNOWN_EXTENT,
    ) -> PositionAnswer:
        """Return the position on the target of source offset ``offset``; the arguments as in `target_position`."""
        known = self._offsets.partitions.get(partition)
        return target_position(
            offset,
            self._offsets.look_up(partition, offset),
            CopiedUpTo() if known is None else known.progress,
            complete=known is None or not known.has_gap,
            by_syncs=by_syncs,
            causes=causes,
            source=source,
            target=target,
        )

    def on_source(
        self,
        partition: TopicPartition,
        offset: int,
        *,
        foreign: Sequence[tuple[int, int]] = (),
        source: Extent = UNKNOWN_EXTENT,
        target: Extent = UNKNOWN_EXTENT,
    ) -> PositionAnswer:
        """Return the position on the source of target offset ``offset``; the arguments as in `TargetOrder`."""
        known = self._offsets.partitions.get(partition)
        order = self._orders.get(partition)
        if order is None:
            order = TargetOrder(self._offsets.loaded)
            if known is not None:
                self._orders[partition] = order
        return order.source_position(
            self._offsets.entries(partition),
            offset,
            complete=known is None or not known.has_gap,
            foreign=foreign,
            source=source,
            target=target,
        )
