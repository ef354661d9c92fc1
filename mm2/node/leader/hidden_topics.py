"""Source topics that a broker leaves out of its list of topics, because the node's principal may not describe them.

The list looks as if they were deleted. A request that names a topic is answered differently: with
TOPIC_AUTHORIZATION_FAILED if the right is missing, whether or not the topic exists, and with
UNKNOWN_TOPIC_OR_PARTITION if it does not exist (KafkaApis.handleTopicMetadataRequest).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from mm2.config.plugins.filters import NameFilter, OwnFilter
from mm2.config.settings import FlowSettings
from mm2.core.access.rights import on_topic
from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.offsets.exact_offset_records import UNKNOWN_IDS
from mm2.core.plugins import PluginError
from mm2.core.topics.acls import Operation
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.status.progress import ReplicatedTopic

Published = Callable[[], Iterable[SourceTaskRecord]]
"""Returns the newest list of each source task."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")


class KnownTopic(NamedTuple):
    """A source topic as it was when it was visible."""

    partitions: int
    topic_id: UUID | None


@dataclass(frozen=True, slots=True)
class HiddenTopics:
    """The result of a search.

    ``known`` are the topics that were visible before and were not deleted, ``errors`` is what is wrong with each of
    them. ``others`` have never been visible.
    """

    known: dict[str, KnownTopic] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    others: list[ReplicatedTopic] = field(default_factory=list)


class HiddenTopicSearch:
    """Finds the topics of a flow that the source hides: those that `topics` names, and those that were visible before.

    The first search of a leader's term takes the topics in the lists of source tasks for those that were visible: an
    earlier leader has published them.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: Cluster,
        *,
        is_replicated: Callable[[str], bool],
        published: Published,
    ) -> None:
        """``is_replicated`` can raise PluginError."""
        self._settings = settings
        self._source = source
        self._is_replicated = is_replicated
        self._published = published
        self._visible: Mapping[str, KnownTopic] | None = None  # in the last round; None: this is the first one

    def seen(self, topics: Mapping[str, KnownTopic]) -> None:
        """These topics were found in this round."""
        self._visible = topics

    def forget(self) -> None:
        """Regard topics that are not visible in the next round as deleted."""
        self._visible = {}

    async def find(self, listed: Collection[str]) -> HiddenTopics:
        """Return the hidden topics. ``listed`` are those that the source shows. Raises ClusterError."""
        alias = self._settings.flow.source
        by_name = _topics_by_name(self._settings.topic_filter)
        visible = topics_of(self._published()) if self._visible is None else self._visible
        found = HiddenTopics()
        for name in sorted(await self._denied((by_name | visible.keys()).difference(listed))):
            error = _error_of_hidden(name, alias, by_name=name in by_name)
            try:
                if not self._is_replicated(name):
                    continue
                remote = self._settings.policy.format_remote_topic(self._settings.aliases.source, name)
            except PluginError as failed:
                found.others.append(ReplicatedTopic(topic=name, remote_topic="", partitions=0, error=str(failed)))
                continue
            if name in visible:
                found.known[name], found.errors[name] = visible[name], error
            else:
                found.others.append(ReplicatedTopic(topic=name, remote_topic=remote, partitions=0, error=error))
        return found

    async def _denied(self, names: Collection[str]) -> set[str]:
        """Return the topics that the source does not permit to describe."""
        if not names:
            return set()
        topics = (await self._source.metadata(names)).topics
        return {name for name, info in topics.items() if info.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def topics_of(lists: Iterable[SourceTaskRecord]) -> dict[str, KnownTopic]:
    """Return the source topics in these lists; a partition that moves to another source task can be in none of them."""
    found: dict[str, KnownTopic] = {}
    for record in lists:
        for one in record.partitions:
            known = found.get(one.topic)
            count = max(one.partition + 1, 0 if known is None else known.partitions)
            found[one.topic] = KnownTopic(count, record.topic_ids.get(one.topic, UNKNOWN_IDS).source)
    return found


def _error_of_hidden(topic: str, cluster: str, *, by_name: bool) -> str:
    """Return the error of a hidden topic. ``cluster`` is the alias of the source; ``by_name``: `topics` names it."""
    absent = "does not exist, remove it from topics" if by_name else "was deleted with its ACLs, run mm2 refresh"
    return (
        f"topic {topic} is not visible on cluster {cluster};"
        f" requires {on_topic(Operation.READ, topic, cluster)} (if the topic {absent})"
    )


def _topics_by_name(selects: NameFilter | OwnFilter) -> frozenset[str]:
    """Return the topics that the property ``topics`` contains by their names, rather than by a regular expression."""
    if not isinstance(selects, NameFilter):
        return frozenset()
    return frozenset(name for name in selects.include.elements if _NAME.fullmatch(name))
