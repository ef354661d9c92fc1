"""The round robin assignor of Java's consumer, which MirrorMaker 1 recommends.

The partitions of all topics, in the order of topics and then of numbers, are given to the members in theirs, one each
and again from the first one on. A member that does not subscribe to the topic is passed over. Source:
RoundRobinAssignor of Kafka 3.9 and 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mm2.core.mirror1.subscriber import Subscriber, in_order, utf_16
from mm2.core.naming.names import TopicPartition


def assign_round_robin(
    members: Collection[Subscriber], partition_counts: Mapping[str, int]
) -> dict[str, set[TopicPartition]]:
    """Return the partitions of each member, by member ID. Topics without a count are not assigned."""
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
