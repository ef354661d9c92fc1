"""One discovery round of the leader: selects source topics, and creates and extends their remote topics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from mm2.config.settings import FlowSettings
from mm2.core.access.rights import on_topic
from mm2.core.log_records import about
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.core.plugins import PluginError
from mm2.core.topics.acls import Operation
from mm2.core.topics.replication_filter import ReplicationFilter
from mm2.core.topics.topic_configs import DefaultsFrom, configs_to_create
from mm2.core.topics.topic_plan import (
    CreateTopic,
    ReturnedCopy,
    TopicPlan,
    plan_topics,
    returned_copies,
    returned_from,
    without_own_copies,
)
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.admin.topic_configs import describe_topic_configs
from mm2.kafka.admin.topics import NewTopic
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.common.turns import in_turns
from mm2.node.leader.hidden_topics import HiddenTopicSearch, KnownTopic, Published
from mm2.node.leader.topic_refusals import keys_of_refusal
from mm2.node.status.progress import ReplicatedTopic

log = logging.getLogger(__name__)

ALL_TOPICS_FROM = 500
"""From this number of remote topics, the metadata of all topics of the target is requested: one large response costs
the broker less than many small ones, and it is decoded in steps."""

_JUDGED_AT_ONCE = 500  # topics processed before yielding to the event loop: about 8 ms
_MADE_AT_ONCE = 100  # the same for new topics, whose configurations are filtered and which are logged
_APPEARS_WITHIN = 5.0  # seconds without progress; new topics reach the brokers' metadata one after the other


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The result of one round.

    ``partitions`` are the source partitions that can be copied, in a stable order: those whose remote partition exists.
    ``remote_topics`` is the remote topic of each source topic for which it exists. ``returned`` are source topics that
    are left out, by name. ``present`` are all topics of users on the source, as far as the node's principal sees them.
    """

    topics: tuple[ReplicatedTopic, ...]
    partitions: tuple[TopicPartition, ...]
    remote_topics: Mapping[str, str] = field(default_factory=dict)
    returned: Mapping[str, ReturnedCopy] = field(default_factory=dict)
    present: frozenset[str] = frozenset()

    @property
    def has_problems(self) -> bool:
        """Whether a topic has an error, so that the next round should start soon."""
        return any(topic.error for topic in self.topics)


class RemoteTopics:
    """Discovers topics and creates their remote topics (Java: MirrorSourceConnector.refreshTopicPartitions).

    A round without changes sends one request to each cluster. A topic's configuration is read only to create its remote
    topic.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: Cluster,
        target: ClusterAdmin,
        replication_filter: ReplicationFilter,
        *,
        published: Published,
    ) -> None:
        """``published``: the lists of source tasks, by which the first round knows topics that are not visible."""
        self._settings = settings
        self._source = source
        self._target = target.cluster
        self._admin = target
        self._filter = replication_filter
        self._timeout_ms = settings.source.admin_timeout_ms
        self._source_ids: dict[str, UUID | None] = {}
        self._remote_ids: dict[str, UUID | None] = {}
        self._source_cluster: str | None = None
        self._target_cluster: str | None = None
        self._hidden_topics = HiddenTopicSearch(
            settings, source, is_replicated=self._is_replicated, published=published
        )
        self._hidden: Mapping[str, str] = {}  # the errors of topics that are not visible
        self._hidden_remote: set[str] = set()
        self._topics_of_users: frozenset[str] = frozenset()

    async def discover(self) -> Discovery:
        """Run one round: list the topics of both clusters, create missing remote topics, and add missing partitions.

        Raises ClusterError if a cluster is unavailable. If a broker rejects a topic, or a custom class fails for it, or
        a regular expression takes too long, that is the topic's ``error``.
        """
        self._source_ids, self._remote_ids, self._hidden_remote = {}, {}, set()
        source, unanswered = await self._replicated()
        policy, alias = self._settings.policy, self._settings.aliases.source
        candidates = await self._returned_from(source)
        wanted = {policy.format_remote_topic(alias, name) for name in source}
        target = await self._present(wanted.union(*candidates.values()))
        returned = returned_copies(candidates, wanted | target.keys(), self._settings.flow)
        source = {name: count for name, count in source.items() if name not in returned}
        self._hidden_topics.seen({name: KnownTopic(count, self._source_ids[name]) for name, count in source.items()})
        await asyncio.sleep(0)  # here and below: each step takes about 30 ms for 10,000 topics
        onto_themselves: set[str] = set()
        if self._target_cluster is not None and self._target_cluster == self._source_cluster:
            source, onto_themselves = without_own_copies(source, policy=policy, source_alias=alias)
        plan = plan_topics(source, target, policy=policy, source_alias=alias)
        await asyncio.sleep(0)
        errors = await self._carry_out(plan, target)
        if onto_themselves:
            errors |= dict.fromkeys(onto_themselves, self._one_cluster())
            kept = {name: remote for name, remote in plan.remote_topics.items() if name not in onto_themselves}
            plan = replace(plan, remote_topics=kept)
        found = await self._result(source, target, plan, errors, unanswered)
        return replace(found, returned=returned, present=self._topics_of_users)

    def forget_hidden(self) -> None:
        """Regard topics that are not visible in the next round as deleted."""
        self._hidden_topics.forget()

    async def _replicated(self) -> tuple[dict[str, int], list[ReplicatedTopic]]:
        """Return the partition counts of the flow's source topics, and the topics of which it is unknown whether they
        are replicated: a custom class failed, or a regular expression takes too long."""
        found: dict[str, int] = {}
        unanswered: list[ReplicatedTopic] = []
        metadata = await self._source.metadata(None)
        self._source_cluster, topics = metadata.cluster_id, metadata.topics
        await asyncio.sleep(0)
        async for name, info in in_turns(topics.items()):
            try:
                if info.partitions and not info.is_internal and self._is_replicated(name):
                    found[name] = len(info.partitions)
                    self._source_ids[name] = info.topic_id
            except PluginError as error:
                unanswered.append(ReplicatedTopic(topic=name, remote_topic="", partitions=0, error=str(error)))
        self._topics_of_users = frozenset(
            name for name, info in topics.items() if info.partitions and not info.is_internal
        )
        hidden = await self._hidden_topics.find(topics.keys())
        self._hidden = hidden.errors
        for name, known in hidden.known.items():
            found[name], self._source_ids[name] = known
        return found, unanswered + hidden.others

    def _one_cluster(self) -> str:
        """Return the error of a topic that would be copied to itself."""
        flow = self._settings.flow
        return (
            f"{flow.source} and {flow.target} are the same cluster and the replication policy keeps the topic's name,"
            " so each record would be copied to its own topic endlessly; correct"
            f" {flow.source}.bootstrap.servers or {flow.target}.bootstrap.servers"
        )

    def _is_replicated(self, name: str) -> bool:
        """Return whether the flow replicates the topic.

        Raises PluginError, also if the policy cannot name the remote topic, or if it is unknown which query applies to
        it; both remember names, so later calls succeed.
        """
        replicated = self._filter.replicates(name)
        if replicated:
            self._settings.policy.format_remote_topic(self._settings.aliases.source, name)
            self._settings.query_of(name)
        return replicated

    async def _returned_from(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return the source topics that may be copies of this flow's remote topics, and those. Raises PluginError."""
        found: dict[str, tuple[str, ...]] = {}
        if self._settings.own.copy_returned_topics:
            return found
        policy, alias = self._settings.policy, self._settings.aliases.source
        for number, name in enumerate(names, 1):
            if remote_topics := returned_from(name, policy=policy, source_alias=alias):
                found[name] = remote_topics
            if number % _JUDGED_AT_ONCE == 0:
                await asyncio.sleep(0)
        return found

    async def _present(self, names: Collection[str]) -> dict[str, int]:
        """Return the partition counts of those remote topics that exist and are visible to the node's principal."""
        if not names:
            return {}
        metadata = await self._target.metadata(None if len(names) >= ALL_TOPICS_FROM else names)
        self._target_cluster, topics = metadata.cluster_id, metadata.topics
        await asyncio.sleep(0)
        found = {name: topics[name] for name in names if name in topics}
        self._remote_ids |= {name: info.topic_id for name, info in found.items()}
        denied = {name for name, info in found.items() if info.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        self._hidden_remote = self._hidden_remote.difference(names) | denied
        return {name: len(info.partitions) for name, info in found.items() if not info.error}

    async def _carry_out(self, plan: TopicPlan, target: dict[str, int]) -> dict[str, str]:
        """Create topics and partitions, and update ``target``. Return the errors by remote topic."""
        errors = {clash.remote_topic: str(clash) for clash in plan.clashes}
        awaited: dict[str, int] = {}
        refused: dict[str, BrokerError | None] = {}
        if plan.create:
            new = await self._new_topics(plan.create, errors)
            refused = await self._admin.create_topics(new, timeout_ms=self._timeout_ms)
            of_source = {one.remote_topic: one.topic for one in plan.create}
            for number, topic in enumerate(new, 1):
                if number % _MADE_AT_ONCE == 0:
                    await asyncio.sleep(0)
                done = f"created with {topic.partitions} {'partition' if topic.partitions == 1 else 'partitions'}"
                if (error := self._note(refused.get(topic.name), topic.name, done)) is not None:
                    errors[topic.name] = self._text(error, of_source[topic.name], topic.configs)
            awaited |= {topic.name: topic.partitions for topic in new}
        if plan.grow:
            totals = {grow.remote_topic: grow.partitions for grow in plan.grow}
            of_source = {grow.remote_topic: grow.topic for grow in plan.grow}
            outcome = await self._admin.create_partitions(totals, timeout_ms=self._timeout_ms)
            for name, total in totals.items():
                done = f"extended from {target[name]} to {total} partitions"
                if (error := self._note(outcome.get(name), name, done)) is not None:
                    errors[name] = self._text(error, of_source[name])
            awaited |= totals
        await self._wait_present({name: total for name, total in awaited.items() if name not in errors}, target)
        for name in refused:
            if name in self._hidden_remote and name not in errors:
                errors[name] = (
                    f"remote topic {name} exists, but is not visible to the node's principal; check who owns the topic;"
                    f" requires {on_topic(Operation.DESCRIBE, name, self._settings.flow.target)}"
                )
        return errors

    async def _new_topics(self, create: Iterable[CreateTopic], errors: dict[str, str]) -> list[NewTopic]:
        wanted = list(create)
        described = await describe_topic_configs(
            self._source, [topic.topic for topic in wanted], timeout_ms=self._timeout_ms
        )
        new = []
        for number, topic in enumerate(wanted, 1):
            if number % _MADE_AT_ONCE == 0:
                await asyncio.sleep(0)
            entries = described[topic.topic]
            if isinstance(entries, BrokerError):
                errors[topic.remote_topic] = f"cannot read its configuration: {entries}"
                continue
            try:
                configs = configs_to_create(
                    entries.values(),
                    excluded=lambda name: not self._settings.config_property_filter(name),
                    use_defaults_from=DefaultsFrom(self._settings.source.use_defaults_from),
                )
            except PluginError as error:
                errors[topic.remote_topic] = str(error)
                continue
            new.append(
                NewTopic(
                    name=topic.remote_topic,
                    partitions=topic.partitions,
                    replication_factor=self._settings.source.replication_factor,
                    configs=configs,
                )
            )
        return new

    def _note(self, error: BrokerError | None, name: str, done: str) -> BrokerError | None:
        """Log what was done; return the error, unless the topic exists already."""
        if error is None:
            log.info("%s: remote topic %s %s", self._settings.flow, name, done, extra=about(topic=name))
        return None if error is None or error.code == ErrorCode.TOPIC_ALREADY_EXISTS else error

    def _text(self, error: BrokerError, topic: str, configs: Iterable[str] = ()) -> str:
        return f"{error}{keys_of_refusal(error, self._settings, topic, configs)}"

    async def _wait_present(self, awaited: Mapping[str, int], target: dict[str, int]) -> None:
        """Wait until the new topics and partitions are in the metadata, or there is no progress for `_APPEARS_WITHIN`.

        The next round checks the remaining ones again.
        """
        backoff, now = Backoff(50, 1_000), asyncio.get_running_loop().time
        missing, deadline = dict(awaited), now() + _APPEARS_WITHIN
        while missing:
            before = len(missing)
            target |= await self._present(missing)
            missing = {
                name: count
                for name, count in missing.items()
                if target.get(name, 0) < count and name not in self._hidden_remote
            }
            if len(missing) < before:
                deadline = now() + _APPEARS_WITHIN
            if not missing or now() > deadline:
                return
            await asyncio.sleep(backoff.next())

    async def _result(
        self,
        source: dict[str, int],
        target: dict[str, int],
        plan: TopicPlan,
        errors: dict[str, str],
        unanswered: list[ReplicatedTopic],
    ) -> Discovery:
        topics, partitions, remote_topics = unanswered, [], {}
        for number, (name, count) in enumerate(sorted(source.items()), 1):
            if number % _JUDGED_AT_ONCE == 0:
                await asyncio.sleep(0)
            remote = self._settings.policy.format_remote_topic(self._settings.aliases.source, name)
            present = target.get(remote, 0)
            error = self._hidden.get(name) or errors.get(remote)
            if error is None and present < count:
                error = (
                    f"remote topic {remote} does not exist yet"
                    if not present
                    else f"remote topic {remote} has {present} partitions, fewer than the {count} of {name}"
                )
            ids = TopicIds(self._source_ids[name], self._remote_ids.get(remote))
            topics.append(
                ReplicatedTopic(
                    topic=name,
                    remote_topic=remote,
                    partitions=count,
                    error=error,
                    topic_ids=ids,
                    query=None if (query := self._settings.query_of(name)) is None else query.name,
                )
            )
            if name in plan.remote_topics and present:
                # Partitions that exist on the target are copied even if others could not be added
                partitions += [TopicPartition(name, partition) for partition in range(min(count, present))]
                remote_topics[name] = remote
        return Discovery(topics=tuple(topics), partitions=tuple(partitions), remote_topics=remote_topics)
