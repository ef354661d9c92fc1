"""How far back the exact offset map goes, in the status of topics."""

from __future__ import annotations

from dataclasses import replace

from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.map_retention import MapExtent
from mm2.node.status.map_extents import MapExtents
from mm2.node.status.status_model import PartitionStatus, TopicStatus


def topic(name: str, partitions: int) -> TopicStatus:
    return TopicStatus(
        topic=name,
        remote_topic=f"A.{name}",
        state=TaskState.RUNNING,
        error=None,
        partitions=tuple(
            PartitionStatus(
                partition=number,
                state=TaskState.RUNNING,
                position=None,
                end_offset=None,
                lag_records=None,
                lag_seconds=None,
                error=None,
            )
            for number in range(partitions)
        ),
    )


def test_extents_of_partitions_and_unchanged_topics() -> None:
    orders, bills = topic("orders", 2), topic("bills", 1)
    shown = MapExtents()
    assert all(one is other for one, other in zip(shown.fill((orders, bills), {}), (orders, bills), strict=True))
    extents = {TopicPartition("orders", 1): MapExtent(exact_from=7, log_start=3)}
    first, second = shown.fill((orders, bills), extents)
    assert [(one.exact_from, one.exact_to_start) for one in first.partitions] == [(None, None), (7, False)]
    assert second is bills
    again, _ = shown.fill((orders, bills), extents)
    assert again is first
    other = {**extents, TopicPartition("bills", 0): MapExtent(exact_from=0, log_start=None)}
    again, second = shown.fill((orders, bills), other)
    assert again is first
    assert (second.partitions[0].exact_from, second.partitions[0].exact_to_start) == (0, None)
    failed = replace(orders, error="the topic cannot be described")
    (again,) = shown.fill((failed,), extents)
    assert (again.error, again.partitions) == (failed.error, first.partitions)
    assert shown.fill((failed,), {}) == (failed,), "a leader that does not know it any more"
