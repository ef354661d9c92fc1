"""The leader's look at both clusters: what is replicated, and whether every source partition has its place."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from mm2.config.settings import FlowSettings
from mm2.core.names import TopicPartition
from mm2.core.replication_filter import ReplicationFilter
from mm2.core.topic_configs import DefaultsFrom, configs_to_create
from mm2.core.topic_plan import CreateTopic, TopicPlan, plan_topics
from mm2.kafka.cluster import Cluster
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError
from mm2.kafka.topic_configs import describe_topic_configs
from mm2.kafka.topics import NewTopic, create_partitions, create_topics
from mm2.node.progress import ReplicatedTopic

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What one round found. ``partitions``: the source partitions that can be copied, in a stable order; those of a
    topic in trouble are left out, the topic says why."""

    topics: tuple[ReplicatedTopic, ...]
    partitions: tuple[TopicPartition, ...]

    @property
    def troubled(self) -> bool:
        """Whether the next round should come soon."""
        return any(topic.error for topic in self.topics)


class RemoteTopics:
    """Discovers topics and makes their remote topics (mm2-compat §3.2 to §3.4)."""

    def __init__(self, settings: FlowSettings, source: Cluster, target: Cluster) -> None:
        self._settings = settings
        self._source = source
        self._target = target
        self._filter = ReplicationFilter(
            flow=settings.flow,
            policy=settings.policy,
            selects=settings.topic_filter,
            replicate_heartbeats=settings.source.heartbeats_replication_enabled,
        )
        self._timeout_ms = settings.source.admin_timeout_ms

    async def discover(self) -> Discovery:
        """One round: list both clusters, create and grow what is missing. Raises ClusterError when a cluster cannot be
        asked; what a broker refuses for one topic stands in that topic's ``error``."""
        metadata = await self._source.metadata(None)
        source = {
            name: len(info.partitions)
            for name, info in metadata.topics.items()
            if info.partitions and not info.is_internal and self._filter.replicates(name)
        }
        names = [self._settings.policy.format_remote_topic(self._settings.flow.source, name) for name in source]
        target = await self._present(names)
        plan = plan_topics(source, target, policy=self._settings.policy, source_alias=self._settings.flow.source)
        errors = await self._carry_out(plan, target)
        if plan.create or plan.grow:
            target = await self._present(names)
        return self._result(source, target, plan, errors)

    async def _present(self, names: Iterable[str]) -> dict[str, int]:
        """Partition counts of the remote topics that exist."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        topics = (await self._target.metadata(wanted)).topics
        return {name: len(info.partitions) for name, info in topics.items() if not info.error}

    async def _carry_out(self, plan: TopicPlan, target: dict[str, int]) -> dict[str, str]:
        """Create and grow; returns the refusals by remote topic, in the broker's words."""
        errors = {clash.remote_topic: str(clash) for clash in plan.clashes}
        if plan.create:
            new = await self._new_topics(plan.create, errors)
            outcome = await create_topics(self._target, new, timeout_ms=self._timeout_ms)
            for topic in new:
                self._note(outcome[topic.name], topic.name, f"created with {topic.partitions} partitions", errors)
        if plan.grow:
            totals = {grow.remote_topic: grow.partitions for grow in plan.grow}
            outcome = await create_partitions(self._target, totals, timeout_ms=self._timeout_ms)
            for name, total in totals.items():
                self._note(outcome[name], name, f"grown from {target[name]} to {total} partitions", errors)
        return errors

    async def _new_topics(self, create: Iterable[CreateTopic], errors: dict[str, str]) -> list[NewTopic]:
        wanted = list(create)
        described = await describe_topic_configs(
            self._source, [topic.topic for topic in wanted], timeout_ms=self._timeout_ms
        )
        new = []
        for topic in wanted:
            entries = described[topic.topic]
            if isinstance(entries, BrokerError):
                errors[topic.remote_topic] = f"its configuration cannot be read: {entries}"
                continue
            configs = configs_to_create(
                entries.values(),
                excluded=self._settings.config_property_filter.exclude,
                use_defaults_from=DefaultsFrom(self._settings.source.use_defaults_from),
            )
            new.append(
                NewTopic(
                    name=topic.remote_topic,
                    partitions=topic.partitions,
                    replication_factor=self._settings.source.replication_factor,
                    configs=configs,
                )
            )
        return new

    def _note(self, error: BrokerError | None, name: str, done: str, errors: dict[str, str]) -> None:
        if error is None:
            log.info("%s: remote topic %s %s", self._settings.flow, name, done)
        elif error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            errors[name] = str(error)

    def _result(
        self, source: dict[str, int], target: dict[str, int], plan: TopicPlan, errors: dict[str, str]
    ) -> Discovery:
        topics, partitions = [], []
        for name, count in sorted(source.items()):
            remote = self._settings.policy.format_remote_topic(self._settings.flow.source, name)
            present = target.get(remote, 0)
            error = errors.get(remote)
            if error is None and name not in plan.remote_topics:
                error = f"remote topic {remote} is claimed by another topic"
            if error is None and present < count:
                error = (
                    f"remote topic {remote} is not there yet"
                    if not present
                    else f"remote topic {remote} has {present} partitions, fewer than the {count} of {name}"
                )
            topics.append(ReplicatedTopic(topic=name, remote_topic=remote, partitions=count, error=error))
            if name in plan.remote_topics:
                # What has its place is copied, also where the topic could not be created anew or grown in full
                partitions += [TopicPartition(name, number) for number in range(min(count, present))]
        return Discovery(topics=tuple(topics), partitions=tuple(partitions))
