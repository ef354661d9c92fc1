"""The topics of a mirror: those of the source that it copies, and where their records go."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from mm2.core.mirror1.settings import Partitioning
from mm2.kafka.admin.topics import NewTopic, create_topics
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.protocol.error_codes import ErrorCode

log = logging.getLogger("mm2.mirror1")

_BROKERS_DEFAULT = -1


class SourceTopics:
    """The topics of the source that match, with their numbers of partitions, as of the last `refresh`."""

    def __init__(self, source: Cluster, matches: Callable[[str], bool], *, exclude_internal: bool) -> None:
        self._source = source
        self._matches = matches
        self._exclude_internal = exclude_internal
        self.partitions: Mapping[str, int] = {}

    async def refresh(self) -> bool:
        """Look again; return whether something has changed. Raises ClusterError."""
        found = (await self._source.metadata(None)).topics
        partitions = {
            name: len(topic.partitions)
            for name, topic in found.items()
            if not topic.error and self._matches(name) and not (self._exclude_internal and topic.is_internal)
        }
        changed, self.partitions = partitions != self.partitions, partitions
        return changed

    def names(self) -> Collection[str]:
        """Return the topics."""
        return self.partitions.keys()

    async def counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return the number of partitions of topics that members of the group want, as leader of the group. Raises
        ClusterError."""
        found = (await self._source.metadata(topics)).topics
        return {name: len(topic.partitions) for name, topic in found.items() if not topic.error}


class TargetTopics:
    """The topics of the target."""

    def __init__(self, target: Cluster, partitioning: Partitioning) -> None:
        self._target = target
        self._partitioning = partitioning

    async def prepare(self, sources: Mapping[str, int]) -> set[str]:
        """Create the topics that are missing, with as many partitions as on the source, and return those whose records
        keep their partition. Raises ClusterError."""
        found = (await self._target.metadata(sources)).topics
        missing = [name for name, topic in found.items() if topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        new = [NewTopic(name=name, partitions=sources[name], replication_factor=_BROKERS_DEFAULT) for name in missing]
        for name, error in (await create_topics(self._target, new) if new else {}).items():
            if error is None:
                log.info("created topic %s on the target with %d partitions", name, sources[name])
            elif error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise error
        if self._partitioning is Partitioning.KEY:
            return set()
        counts = {name: len(topic.partitions) for name, topic in found.items()} | {
            name: sources[name] for name in missing
        }
        kept = {name for name, count in sources.items() if counts.get(name, 0) >= count}
        for name in sources.keys() - kept:
            log.info(
                "topic %s has %d partitions on the target and %d on the source: its records go to the partitions of"
                " their keys",
                name,
                counts.get(name, 0),
                sources[name],
            )
        return kept
