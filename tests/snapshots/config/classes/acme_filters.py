"""Classes referenced by invalid files; each has a defect."""

from __future__ import annotations

from collections.abc import Mapping

from mm2.core.plugins import GroupFilter, TopicFilter
from mm2.core.policies import ReplicationPolicy
from mm2.kafka.admin.cluster_admin import ClusterAdmin, Refusals

LIMIT = 3


class NeedsList(TopicFilter):
    def configure(self, properties: Mapping[str, str]) -> None:
        self.topics = properties["acme.topics"]

    def should_replicate_topic(self, topic: str) -> bool:
        return topic in self.topics


class NeedsArguments(GroupFilter):
    def __init__(self, groups: str) -> None:
        self.groups = groups

    def should_replicate_group(self, group: str) -> bool:
        return group in self.groups


class Undecided(TopicFilter):
    pass


class NoFilter:
    def should_replicate_topics(self, topic: str) -> bool:
        return bool(topic)


class Waiting(TopicFilter):
    async def should_replicate_topic(self, topic: str) -> bool:  # type: ignore[override]
        return bool(topic)


class ThreeMethods:
    def format_remote_topic(self, alias: str, topic: str) -> str:
        return f"{topic}@{alias}"

    def topic_source(self, topic: str) -> str | None:
        return topic.partition("@")[2] or None

    def upstream_topic(self, topic: str) -> str | None:
        return topic.partition("@")[0] or None


class Shouting(ReplicationPolicy):
    def format_remote_topic(self, alias: str, topic: str) -> str:
        return f"{alias}.{topic}"

    def topic_source(self, topic: str) -> str | None:
        return topic.partition(".")[0]

    def upstream_topic(self, topic: str) -> str | None:
        return topic.partition(".")[2]

    def checkpoints_topic(self, alias: str) -> str:
        return f"checkpoints of {alias}!"


class NoAdmin:
    async def create_topics(self) -> None: ...

    async def create_partitions(self) -> None: ...

    async def alter_topic_configs(self) -> None: ...

    async def create_acls(self) -> None: ...


class BlockingAdmin(ClusterAdmin):
    def create_topics(self, topics: object, *, timeout_ms: int = 0) -> Refusals:  # type: ignore[override]
        return {f"{topics} {timeout_ms}": None}
