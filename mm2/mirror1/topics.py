"""The topics of a mirror: those of the source that it copies, and where their records go."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from mm2.core.access.rights import on_topic
from mm2.core.mirror1.settings import Partitioning
from mm2.core.plugins import PluginError
from mm2.core.topics.acls import Operation
from mm2.kafka.admin.topics import NewTopic, create_topics
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.common.turns import in_turns

log = logging.getLogger("mm2.mirror1")

_BROKERS_DEFAULT = -1


class NotKnownYet(ClusterError):
    """A broker does not know a topic that exists."""

    retriable = True


class SourceTopics:
    """The topics of the source that match, with their numbers of partitions, as of the last `refresh`."""

    def __init__(self, source: Cluster, matches: Callable[[str], bool], *, exclude_internal: bool) -> None:
        """``matches`` raises PluginError if that is unknown; the topic is then not copied, which is logged once."""
        self._source = source
        self._matches = matches
        self._exclude_internal = exclude_internal
        self._unknown: frozenset[str] = frozenset()  # of the last `refresh`
        self.partitions: Mapping[str, int] = {}

    async def refresh(self) -> bool:
        """Look again; return whether something has changed. Raises ClusterError."""
        found = (await self._source.metadata(None)).topics
        partitions, unknown = {}, set()
        async for name, topic in in_turns(found.items()):
            if topic.error or (self._exclude_internal and topic.is_internal):
                continue
            try:
                if self._matches(name):
                    partitions[name] = len(topic.partitions)
            except PluginError as error:
                unknown.add(name)
                if name not in self._unknown:
                    log.warning("topic %s is not copied: %s", name, error)
        self._unknown = frozenset(unknown)
        changed, self.partitions = partitions != self.partitions, partitions
        return changed

    def names(self) -> Collection[str]:
        """Return the topics."""
        return self.partitions.keys()

    async def counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return the number of partitions of topics that members of the group want, as leader of the group. Raises
        ClusterError."""
        return {name: found for name, found in (await self.look_up(topics)).items() if isinstance(found, int)}

    async def look_up(self, topics: Collection[str]) -> dict[str, int | BrokerError]:
        """Return the number of partitions of each topic, or why it cannot be read. Raises ClusterError."""
        found: dict[str, int | BrokerError] = {}
        for name, topic in (await self._source.metadata(topics)).topics.items():
            right = on_topic(Operation.READ, name)
            error = BrokerError(topic.error, f"read the metadata of topic {name} on the source", right=right)
            found[name] = error if topic.error else len(topic.partitions)
        return found


@dataclass(frozen=True, slots=True)
class Prepared:
    """``kept``: the topics whose records keep their partition. ``refused``: those that cannot be written, and why."""

    kept: frozenset[str]
    refused: Mapping[str, ClusterError]


NOTHING = Prepared(frozenset(), {})


CreateTopics = Callable[[Cluster, Sequence[NewTopic]], Awaitable[Mapping[str, BrokerError | None]]]
"""Creates topics, and returns the error of each (`create_topics`)."""


class TargetTopics:
    """The topics of the target."""

    def __init__(self, target: Cluster, partitioning: Partitioning, *, create: CreateTopics = create_topics) -> None:
        self._target = target
        self._partitioning = partitioning
        self._create = create

    async def prepare(self, sources: Mapping[str, int]) -> Prepared:
        """Create the topics that are missing, with as many partitions as on the source (``sources``).

        Raises ClusterError if the target does not answer, or has no answer yet.
        """
        found = await self._counts(sources)
        missing = [name for name, count in found.items() if count == 0]
        refused: dict[str, ClusterError] = {
            name: error for name, error in found.items() if isinstance(error, BrokerError)
        }
        new = [NewTopic(name=name, partitions=sources[name], replication_factor=_BROKERS_DEFAULT) for name in missing]
        exist: list[str] = []
        for name, error in (await self._create(self._target, new) if new else {}).items():
            if error is None:
                count = sources[name]
                log.info("created topic %s on the target with %d partition%s", name, count, "" if count == 1 else "s")
                found[name] = sources[name]
            elif error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                exist.append(name)  # created by someone else a moment ago
            elif error.retriable:
                raise error
            else:
                refused[name] = error
        if exist:
            found |= await self._counts(exist)
            if any(found[name] == 0 for name in exist):
                raise NotKnownYet(f"the target does not know its new topic {exist[0]} yet")
        if self._partitioning is Partitioning.KEY:
            return Prepared(frozenset(), refused)
        kept = {name for name, count in found.items() if isinstance(count, int) and count == sources[name]}
        for name in sources.keys() - kept - refused.keys():
            log.info(
                "topic %s has %s partitions on the target and %d on the source: its records go to the partitions of"
                " their keys",
                name,
                found[name],
                sources[name],
            )
        return Prepared(frozenset(kept), refused)

    async def _counts(self, names: Collection[str]) -> dict[str, int | BrokerError]:
        """Return the partitions of each topic, 0 if it does not exist, or why it cannot be used."""
        counts: dict[str, int | BrokerError] = {}
        for name, topic in (await self._target.metadata(names)).topics.items():
            if topic.error in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                counts[name] = len(topic.partitions)
                continue
            right = on_topic(Operation.DESCRIBE, name)
            error = BrokerError(topic.error, f"read the metadata of topic {name} on the target", right=right)
            if error.retriable:
                raise error
            counts[name] = error
        return counts
