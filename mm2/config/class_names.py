"""Keys whose value is a class: Java's names for what is built in, and what a user's own class must be able to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

JAVA_MIRROR = "org.apache.kafka.connect.mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassKey:
    """One such key. ``built_in`` maps Java's class names to ours, the default first. ``base`` is what a user's class
    inherits from; it is imported only when there is such a class, as not everything is for this package to import.
    ``methods`` are those it must have, by itself or from ``base``; ``asynchronous``: they are coroutines, and the class
    is really to inherit, because the base does the work that it leaves."""

    name: str
    noun: str
    built_in: Mapping[str, str]
    base: str
    methods: tuple[str, ...]
    asynchronous: bool = False

    @property
    def default(self) -> str:
        """Java's default."""
        return next(iter(self.built_in))


POLICY = ClassKey(
    name="replication.policy.class",
    noun="a replication policy",
    built_in={
        f"{JAVA_MIRROR}.DefaultReplicationPolicy": "mm2.core.policies:DefaultReplicationPolicy",
        f"{JAVA_MIRROR}.IdentityReplicationPolicy": "mm2.core.policies:IdentityReplicationPolicy",
    },
    base="mm2.core.policies:ReplicationPolicy",
    methods=(
        "format_remote_topic",
        "topic_source",
        "upstream_topic",
        "original_topic",
        "heartbeats_topic",
        "offset_syncs_topic",
        "checkpoints_topic",
        "is_heartbeats_topic",
        "is_checkpoints_topic",
        "is_mm2_internal_topic",
        "is_internal_topic",
    ),
)
TOPIC_FILTER = ClassKey(
    name="topic.filter.class",
    noun="a topic filter",
    built_in={f"{JAVA_MIRROR}.DefaultTopicFilter": "mm2.config.filters:NameFilter"},
    base="mm2.core.plugins:TopicFilter",
    methods=("should_replicate_topic",),
)
GROUP_FILTER = ClassKey(
    name="group.filter.class",
    noun="a group filter",
    built_in={f"{JAVA_MIRROR}.DefaultGroupFilter": "mm2.config.filters:NameFilter"},
    base="mm2.core.plugins:GroupFilter",
    methods=("should_replicate_group",),
)
PROPERTY_FILTER = ClassKey(
    name="config.property.filter.class",
    noun="a filter of topic settings",
    built_in={f"{JAVA_MIRROR}.DefaultConfigPropertyFilter": "mm2.config.filters:PropertyFilter"},
    base="mm2.core.plugins:ConfigPropertyFilter",
    methods=("should_replicate_config_property",),
)
ADMIN = ClassKey(
    name="forwarding.admin.class",
    noun="an admin",
    built_in={"org.apache.kafka.clients.admin.ForwardingAdmin": "mm2.kafka.admin:ClusterAdmin"},
    base="mm2.kafka.admin:ClusterAdmin",
    methods=("create_topics", "create_partitions", "alter_topic_configs", "create_acls"),
    asynchronous=True,
)

CLASS_KEYS = (POLICY, TOPIC_FILTER, GROUP_FILTER, PROPERTY_FILTER, ADMIN)


def is_own(text: str) -> bool:
    """Whether the file means a class of a user's own by ``text``, be it written well or not."""
    return ":" in text
