"""The range assignor of Java's consumer, with which the leader of a consumer group assigns partitions to its members.

For each topic, the partitions are divided in their order among the topic's subscribers in theirs; if they cannot be
divided evenly, the first subscribers get one more. Source: RangeAssignor of Kafka 3.9 and 4.3, without rack awareness
(KIP-881), which needs racks of members and replicas.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mm2.core.mirror1.subscriber import Subscriber, in_order
from mm2.core.naming.names import TopicPartition


def assign_ranges(
    members: Collection[Subscriber], partition_counts: Mapping[str, int]
) -> dict[str, set[TopicPartition]]:
    """Return the partitions of each member, by member ID. Topics without a count are not assigned."""
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
