"""Plans remote topics to create or to extend, so that every source partition has a counterpart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping
from dataclasses import dataclass

from mm2.core.naming.names import Flow
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnedCopy:
    """Source topic ``topic`` is a copy of ``remote_topic``, a remote topic of the same flow that exists on the target.

    Two installations make it if their files have different aliases for the same clusters, so that neither recognises
    the other's remote topics as copies from its target (KAFKA-9914).
    """

    flow: Flow
    topic: str
    remote_topic: str

    def __str__(self) -> str:
        return (
            f"topic {self.topic} is a copy of {self.remote_topic}, which this flow itself wrote to {self.flow.target},"
            f" so it would be copied in circles; to copy it, set {self.flow}.{COPY_RETURNED} = true"
        )


COPY_RETURNED = "mm2.copy.returned.topics"
"""The key of the file that lets a flow replicate `ReturnedCopy` topics."""


def returned_from(topic: str, *, policy: ReplicationPolicy, source_alias: str) -> tuple[str, ...]:
    """Return the remote topics of the flow that source topic ``topic`` may be a copy of, by its name, nearest first.

    A name proves nothing: a user can name a topic ``shop.A.orders``. So such a topic counts as a copy only if one of
    these exists on the target (`returned_copies`).
    """
    return tuple(name for name in policy.upstream_topics(topic) if policy.topic_source(name) == source_alias)


def returned_copies(
    candidates: Mapping[str, tuple[str, ...]], target: Container[str], flow: Flow
) -> dict[str, ReturnedCopy]:
    """Return the topics among ``candidates``, with their `returned_from`, that are copies of topics of the target.

    ``target``: the names of topics that exist on the target, and of those that the flow creates in the same round.
    """
    found = {}
    for topic, remote_topics in candidates.items():
        present = next((name for name in remote_topics if name in target), None)
        if present is not None:
            found[topic] = ReturnedCopy(flow=flow, topic=topic, remote_topic=present)
    return found


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
