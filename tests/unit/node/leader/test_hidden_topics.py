"""What the lists of source tasks tell about topics that are not visible."""

from __future__ import annotations

from uuid import UUID

from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.node.leader.hidden_topics import KnownTopic, topics_of

ORDERS_ID = UUID(int=7)


def listed(source_task: int, **topics: list[int]) -> SourceTaskRecord:
    partitions = frozenset(TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers)
    ids = {"orders": TopicIds(ORDERS_ID, UUID(int=8))} if "orders" in topics else {}
    return SourceTaskRecord(source_task=source_task, epoch=3, version=1, partitions=partitions, topic_ids=ids)


def test_topics_of_all_source_tasks() -> None:
    """Topics without known IDs are those of brokers before Kafka 2.8."""
    lists = [listed(0, orders=[0, 2], payments=[0]), listed(1, orders=[1])]
    assert topics_of(lists) == {"orders": KnownTopic(3, ORDERS_ID), "payments": KnownTopic(1, None)}
    assert topics_of(reversed(lists)) == topics_of(lists)


def test_a_partition_that_moves_can_be_in_no_list() -> None:
    assert topics_of([listed(0, orders=[2]), listed(1)]) == {"orders": KnownTopic(3, ORDERS_ID)}
