"""The assignors of Java's consumer that members of a consumer group can offer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from mm2.core.mirror1.subscriber import Subscriber, in_order, utf_16
from mm2.core.naming.names import TopicPartition

RANGE = "range"
ROUND_ROBIN = "roundrobin"

Assign = Callable[[Collection[Subscriber], Mapping[str, int]], dict[str, set[TopicPartition]]]

JAVA_CLASSES: Mapping[str, str] = {
    RANGE: "org.apache.kafka.clients.consumer.RangeAssignor",
    ROUND_ROBIN: "org.apache.kafka.clients.consumer.RoundRobinAssignor",
}
"""Values of partition.assignment.strategy, by name."""


def assign_ranges(
    members: Collection[Subscriber], partition_counts: Mapping[str, int]
) -> dict[str, set[TopicPartition]]:
    """Return the partitions of each member, by member ID. Topics without a count are not assigned.

    For each topic, the partitions are divided in their order among the topic's subscribers in theirs; if they cannot be
    divided evenly, the first subscribers get one more. Source: RangeAssignor of Kafka 3.9 and 4.3, without rack
    awareness (KIP-881), which needs racks of members and replicas.
    """
    assignment: dict[str, set[TopicPartition]] = {member.member_id: set() for member in members}
    subscribers: dict[str, list[str]] = {}
    for member in in_order(members):
        for topic in set(member.topics):
            subscribers.setdefault(topic, []).append(member.member_id)
    for topic, member_ids in subscribers.items():
        each, extra = divmod(partition_counts.get(topic, 0), len(member_ids))
        first = 0
        for index, member_id in enumerate(member_ids):
            end = first + each + (index < extra)
            assignment[member_id] |= {TopicPartition(topic, number) for number in range(first, end)}
            first = end
    return assignment


def assign_round_robin(
    members: Collection[Subscriber], partition_counts: Mapping[str, int]
) -> dict[str, set[TopicPartition]]:
    """Return the partitions of each member, by member ID. Topics without a count are not assigned.

    The partitions of all topics, in the order of topics and then of numbers, are given to the members in theirs, one
    each and again from the first one on. A member that does not subscribe to the topic is passed over. MirrorMaker 1
    recommends it. Source: RoundRobinAssignor of Kafka 3.9 and 4.3.
    """
    assignment: dict[str, set[TopicPartition]] = {member.member_id: set() for member in members}
    circle = [(member.member_id, frozenset(member.topics)) for member in in_order(members)]
    index = 0
    for topic in sorted({topic for _, topics in circle for topic in topics}, key=utf_16):
        for number in range(partition_counts.get(topic, 0)):
            while topic not in circle[index % len(circle)][1]:
                index += 1
            assignment[circle[index % len(circle)][0]].add(TopicPartition(topic, number))
            index += 1
    return assignment


ASSIGNORS: Mapping[str, Assign] = {RANGE: assign_ranges, ROUND_ROBIN: assign_round_robin}
"""By their names in JoinGroup requests (ConsumerPartitionAssignor.name)."""
