"""Which remote topics to create, and which need more partitions, so that every source partition has a counterpart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from mm2.core.policies import ReplicationPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Create ``remote_topic``. Its configs are fetched only then, as few topics are new (`topic_configs`)."""

    topic: str
    remote_topic: str
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowTopic:
    """Increase the partitions of ``remote_topic`` from ``present`` to ``partitions``. They are never reduced."""

    topic: str
    remote_topic: str
    present: int
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NameClash:
    """Several source ``topics`` map to ``remote_topic``. None of them is replicated, because their records would mix,
    and the remote topic cannot be attributed to one of them."""

    remote_topic: str
    topics: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.topics)} all map to remote topic {self.remote_topic}: rename or exclude all but one"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """``remote_topics`` maps every source topic that can be replicated to its remote topic; each list is sorted."""

    remote_topics: Mapping[str, str]
    create: tuple[CreateTopic, ...] = ()
    grow: tuple[GrowTopic, ...] = ()
    clashes: tuple[NameClash, ...] = ()


def without_own_copies(
    source: Mapping[str, int], *, policy: ReplicationPolicy, source_alias: str
) -> tuple[dict[str, int], set[str]]:
    """Remove remote topics from ``source``, for a flow whose two aliases are the same cluster.

    Returns ``source`` without the flow's remote topics, which would be copied again under longer and longer names, and
    the set of topics whose remote topic has the same name.
    """
    remote = {name: policy.format_remote_topic(source_alias, name) for name in source}
    onto_themselves = {name for name, copy in remote.items() if copy == name}
    copies = set(remote.values())  # the source of a copy is not always clear from its name alone
    kept = {
        name: partitions
        for name, partitions in source.items()
        if name in onto_themselves or (name not in copies and policy.topic_source(name) != source_alias)
    }
    return kept, onto_themselves


def plan_topics(
    source: Mapping[str, int], target: Mapping[str, int], *, policy: ReplicationPolicy, source_alias: str
) -> TopicPlan:
    """Compare the replicated topics of the source with all topics of the target; both map names to partition counts.

    A remote topic with more partitions than its source is not changed: the source topic can get more partitions later.
    """
    claims: dict[str, list[str]] = defaultdict(list)
    for topic in sorted(source):
        claims[policy.format_remote_topic(source_alias, topic)].append(topic)
    create: list[CreateTopic] = []
    grow: list[GrowTopic] = []
    clashes: list[NameClash] = []
    for remote_topic, topics in sorted(claims.items()):
        topic, partitions = topics[0], source[topics[0]]
        present = target.get(remote_topic)
        if len(topics) > 1:
            clashes.append(NameClash(remote_topic=remote_topic, topics=tuple(topics)))
        elif present is None:
            create.append(CreateTopic(topic=topic, remote_topic=remote_topic, partitions=partitions))
        elif present < partitions:
            grow.append(GrowTopic(topic=topic, remote_topic=remote_topic, present=present, partitions=partitions))
    return TopicPlan(
        remote_topics={topics[0]: remote for remote, topics in sorted(claims.items()) if len(topics) == 1},
        create=tuple(create),
        grow=tuple(grow),
        clashes=tuple(clashes),
    )
