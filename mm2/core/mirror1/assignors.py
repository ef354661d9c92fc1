"""The assignors of Java's consumer that members of a consumer group can offer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from mm2.core.mirror1.range_assignor import assign_ranges
from mm2.core.mirror1.round_robin_assignor import assign_round_robin
from mm2.core.mirror1.subscriber import Subscriber
from mm2.core.naming.names import TopicPartition

RANGE = "range"
ROUND_ROBIN = "roundrobin"

Assign = Callable[[Collection[Subscriber], Mapping[str, int]], dict[str, set[TopicPartition]]]

ASSIGNORS: Mapping[str, Assign] = {RANGE: assign_ranges, ROUND_ROBIN: assign_round_robin}
"""By their names in JoinGroup requests (ConsumerPartitionAssignor.name)."""

JAVA_CLASSES: Mapping[str, str] = {
    RANGE: "org.apache.kafka.clients.consumer.RangeAssignor",
    ROUND_ROBIN: "org.apache.kafka.clients.consumer.RoundRobinAssignor",
}
"""Values of partition.assignment.strategy, by name."""
