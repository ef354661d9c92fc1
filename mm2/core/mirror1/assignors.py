"""The assignors of Java's consumer that members of a consumer group can offer, and what a member subscribes to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from mm2.core.naming.names import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member of the group with the topics it subscribes to. ``instance_id`` is its group.instance.id, if set."""

    member_id: str
    topics: Collection[str]
    instance_id: str | None = None


def in_order(members: Collection[Subscriber]) -> list[Subscriber]:
    """Return members in the order of group.instance.id (KIP-345), then of member IDs for those without one.

    Source: MemberInfo (AbstractPartitionAssignor) of Kafka 3.9 and 4.3.
    """
    return sorted(members, key=_order)


def _order(member: Subscriber) -> tuple[bool, bytes]:
    text = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, utf_16(text)


def utf_16(text: str) -> bytes:
    """Return what orders strings as Java does: by UTF-16 units."""
    return text.encode("utf-16-be", errors="surrogatepass")


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
