"""Properties of a Java consumer as a member of its group, with Java's types and defaults."""

from __future__ import annotations

from typing import Annotated

from mm2.config.grammar.java_types import Boolean, Int, ListOf, OptionalString, String, at_least, one_of
from mm2.config.keys.declaration import KeyModel, node_key
from mm2.core.mirror1.assignors import JAVA_CLASSES, RANGE

RESET = "auto.offset.reset"
STRATEGIES = "partition.assignment.strategy"

_ASSIGNORS = {written: name for name, java in JAVA_CLASSES.items() for written in (java, name)}
"""The names of assignors as a file can have them: Java's classes, or the names of the old consumer."""


class GroupKeys(KeyModel):
    """Durations are milliseconds."""

    group_id: OptionalString = node_key(
        "group.id", None, "Consumer group whose committed offsets say what was copied. Required."
    )
    group_instance_id: OptionalString = node_key(
        "group.instance.id", None, "Makes members static (KIP-345); each stream appends its number."
    )
    session_timeout_ms: Annotated[Int, at_least(1)] = node_key(
        "session.timeout.ms", 45_000, "Time without a heartbeat after which the broker removes a member."
    )
    heartbeat_interval_ms: Annotated[Int, at_least(1)] = node_key(
        "heartbeat.interval.ms", 3_000, "Time between two heartbeats; less than the session timeout."
    )
    max_poll_interval_ms: Annotated[Int, at_least(1)] = node_key(
        "max.poll.interval.ms", 300_000, "Time that members have to join a rebalance."
    )
    strategies: ListOf = node_key(STRATEGIES, (JAVA_CLASSES[RANGE],), "Assignors of the group.")
    auto_offset_reset: Annotated[String, one_of("earliest", "latest", "none")] = node_key(
        RESET, "latest", "Start of a partition without a committed offset. Default in mm2.properties: earliest."
    )
    exclude_internal_topics: Boolean = node_key(
        "exclude.internal.topics", True, "Leave out Kafka's own topics, such as __consumer_offsets."
    )

    @property
    def assignors(self) -> tuple[str, ...]:
        """The supported assignors in the order of the file; none if the file has only others."""
        return tuple(dict.fromkeys(_ASSIGNORS[one] for one in self.strategies if one in _ASSIGNORS))
