"""How far back the exact offset map of partitions goes, in the status of topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.map_retention import MapExtent
from mm2.node.status.status_model import PartitionStatus, TopicStatus


class MapExtents:
    """Fills ``exact_from`` and ``exact_to_start`` of partitions; unknown ones stay None.

    A topic remains the same object until the topic as given, or an extent of its partitions, changes: as in
    `FlowProgress`.
    """

    def __init__(self) -> None:
        self._extents: Mapping[TopicPartition, MapExtent] = {}
        self._shown: dict[str, tuple[TopicStatus, TopicStatus]] = {}

    def fill(
        self, topics: Iterable[TopicStatus], extents: Mapping[TopicPartition, MapExtent]
    ) -> tuple[TopicStatus, ...]:
        """Return the topics with these extents of source partitions."""
        same, self._extents = extents is self._extents, extents
        before, self._shown = self._shown, {}
        for topic in topics:
            kept = before.get(topic.topic)
            if kept is not None and kept[0] is topic:
                shown = kept[1] if same else _filled(topic, kept[1], extents)
            else:
                shown = _filled(topic, topic, extents)
            self._shown[topic.topic] = topic, shown
        return tuple(shown for _, shown in self._shown.values())


def _filled(topic: TopicStatus, shown: TopicStatus, extents: Mapping[TopicPartition, MapExtent]) -> TopicStatus:
    """Return ``shown``, the topic as it is shown now, or a new one with other extents."""
    found = tuple(_with(one, extents.get(TopicPartition(topic.topic, one.partition))) for one in shown.partitions)
    same = all(one is other for one, other in zip(found, shown.partitions, strict=True))
    return shown if same else replace(shown, partitions=found)


def _with(one: PartitionStatus, extent: MapExtent | None) -> PartitionStatus:
    exact_from, to_start = (None, None) if extent is None else (extent.exact_from, extent.to_start)
    if (one.exact_from, one.exact_to_start) == (exact_from, to_start):
        return one
    return replace(one, exact_from=exact_from, exact_to_start=to_start)
