"""The ACLs that one flow needs, by role: the only source of ``mm2 acls``, docs/reference/acls.md and the tests.

The list is minimal: without any one of them, something that the flow is configured to do does not work. So it contains
nothing that another ACL implies (`mm2.core.access.rights.implies`), and nothing for features that are off. What only
Kafka needs (the brokers' own principals), and what ZooKeeper needs, is not included.

- IDEMPOTENT_WRITE on the cluster is left out: since Kafka 2.8, WRITE on any topic allows idempotent writes (KIP-679).
- DESCRIBE_CONFIGS on remote topics without sync of topic configs is left out: only the size limit of batches that the
  target rejected as too large is read with it, and found by halving otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from mm2.core.access.acl_patterns import AclPattern, minimal, remote_pattern
from mm2.core.access.rights import CLUSTER_RESOURCE, Right, implies
from mm2.core.naming import internal_topics
from mm2.core.naming.internal_topics import InternalTopic, Side
from mm2.core.naming.names import Flow
from mm2.core.policies import ReplicationPolicy
from mm2.core.topics.acls import Operation, PatternType, ResourceType


class AclRole(StrEnum):
    """What an ACL is for. A node needs those of all roles but `OTHER_PROGRAMS`, because any node can lead a flow."""

    READ_SOURCE = "read the source"
    WRITE_TARGET = "write the target"
    LEAD = "lead"
    TRANSACTIONS = "fencing and exactly-once"
    INTERNAL_TOPICS = "internal topics"
    CHECKPOINTS = "checkpoints"
    GROUP_SYNC = "group offset sync"
    HEARTBEATS = "heartbeats"
    TRANSLATE = "translation of positions"
    CLIENT = "client library"


OTHER_PROGRAMS = frozenset({AclRole.TRANSLATE, AclRole.CLIENT})
"""The roles of what can run as another principal than a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredAcl:
    """One ACL on ``cluster``, which is an alias. ``why`` is what it is for."""

    role: AclRole
    cluster: str
    resource_type: ResourceType
    pattern: AclPattern
    operation: Operation
    why: str

    def allows(self, right: Right) -> bool:
        """Return whether it allows ``right``; a right without a cluster is one on this cluster."""
        return (
            right.cluster in ("", self.cluster)
            and right.resource_type is self.resource_type
            and self.pattern.covers(AclPattern(right.name))
            and implies(self.operation, right.operation)
        )

    def __str__(self) -> str:
        prefixed = "with prefix " if self.pattern.pattern_type is PatternType.PREFIXED else ""
        return str(
            Right(
                operation=self.operation,
                resource_type=self.resource_type,
                name=f"{prefixed}{self.pattern.name}",
                cluster=self.cluster,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowFeatures:
    """What a flow does, as far as ACLs depend on it.

    ``source_alias``: that of the source in topic names. ``topics`` and ``groups`` are the selected names on the source.
    ``replicates``: the flow is enabled. ``fences``: owners of source tasks are fenced. ``exactly_once``: records are
    written in transactions. ``heartbeats``: heartbeats are written to the target; ``upstream_heartbeats`` are the
    heartbeats topics of the source that the flow replicates.
    ``transactional_leader_id`` is that of the leader, ``transactional_task_prefix`` what those of source tasks start
    with. Internal topics that the flow does not use are None.
    """

    flow: Flow
    source_alias: str
    policy: ReplicationPolicy
    replicates: bool
    topics: tuple[AclPattern, ...]
    groups: tuple[AclPattern, ...]
    upstream_heartbeats: tuple[str, ...]
    heartbeats: bool
    sync_topic_configs: bool
    sync_topic_acls: bool
    sync_group_offsets: bool
    fences: bool
    exactly_once: bool
    group_id: str
    transactional_leader_id: str
    transactional_task_prefix: str
    worker_topics: tuple[InternalTopic, ...]
    offset_syncs: InternalTopic | None
    checkpoints: InternalTopic | None
    exact_offsets: InternalTopic | None
    dead_letters: InternalTopic | None
    audit: InternalTopic | None


def required_acls(features: FlowFeatures) -> tuple[RequiredAcl, ...]:
    """Return the ACLs by role, in the order of `AclRole`. Each role is complete, so an ACL can occur in several."""
    return tuple(_FlowAcls(features).all())


class _FlowAcls:
    def __init__(self, features: FlowFeatures) -> None:
        self._features = features
        self._source, self._target = features.flow.source, features.flow.target
        heartbeats = tuple(AclPattern(topic) for topic in features.upstream_heartbeats)
        self._topics = minimal((*features.topics, *heartbeats))
        self._remote_topics = self._remote((*features.topics, *heartbeats))

    def all(self) -> Iterator[RequiredAcl]:
        features = self._features
        if features.replicates:
            yield from self._read_source()
            yield from self._write_target()
        yield from self._lead()
        yield from self._transactions()
        yield from self._internal_topics()
        if features.checkpoints is not None:
            yield from self._checkpoints(features.checkpoints)
            if features.sync_group_offsets:
                yield from self._group_sync()
        yield from self._heartbeats()
        if features.replicates:
            yield from self._translate()
        yield from self._client()

    def _read_source(self) -> Iterator[RequiredAcl]:
        role, cluster = AclRole.READ_SOURCE, self._source
        yield from _on_topics(role, cluster, self._topics, Operation.READ, "find and fetch the topics")
        why = "create remote topics with the same configuration"
        if self._features.sync_topic_configs:
            why += ", and sync it"
        yield from _on_topics(role, cluster, self._topics, Operation.DESCRIBE_CONFIGS, why)

    def _write_target(self) -> Iterator[RequiredAcl]:
        role, cluster, remote = AclRole.WRITE_TARGET, self._target, self._remote_topics
        yield from _on_topics(role, cluster, remote, Operation.WRITE, "write the records")
        if self._features.fences and not self._features.exactly_once:
            why = "find what a lost owner of a source task copied; without it these records are copied again"
            yield from _on_topics(role, cluster, remote, Operation.READ, why)

    def _lead(self) -> Iterator[RequiredAcl]:
        role, cluster, remote, features = AclRole.LEAD, self._target, self._remote_topics, self._features
        group = AclPattern(features.group_id)
        why = "join the group of the flow's nodes"
        yield _acl(role, cluster, Operation.READ, why, kind=ResourceType.GROUP, pattern=group)
        if not features.replicates:
            return
        yield from _on_topics(role, cluster, remote, Operation.CREATE, "create remote topics")
        yield from _on_topics(role, cluster, remote, Operation.ALTER, "add partitions to remote topics")
        if features.sync_topic_configs:
            why = "sync topic configurations"
            yield from _on_topics(role, cluster, remote, Operation.ALTER_CONFIGS, why)
        if features.sync_topic_acls:
            whole = AclPattern(CLUSTER_RESOURCE)
            why = "read the ACLs of topics"
            yield _acl(role, self._source, Operation.DESCRIBE, why, kind=ResourceType.CLUSTER, pattern=whole)
            why = "create the ACLs of remote topics"
            yield _acl(role, cluster, Operation.ALTER, why, kind=ResourceType.CLUSTER, pattern=whole)

    def _transactions(self) -> Iterator[RequiredAcl]:
        role, features = AclRole.TRANSACTIONS, self._features
        kind = ResourceType.TRANSACTIONAL_ID
        leader = AclPattern(features.transactional_leader_id)
        yield _acl(role, self._target, Operation.WRITE, "fence a leader that was replaced", kind=kind, pattern=leader)
        if features.fences:
            tasks = AclPattern(features.transactional_task_prefix, PatternType.PREFIXED)
            why = "fence earlier owners of source tasks; with exactly-once also write in transactions"
            yield _acl(role, self._target, Operation.WRITE, why, kind=kind, pattern=tasks)

    def _internal_topics(self) -> Iterator[RequiredAcl]:
        role, features = AclRole.INTERNAL_TOPICS, self._features
        read, write, create = Operation.READ, Operation.WRITE, Operation.CREATE
        for topic in features.worker_topics:
            yield from self._internal(role, topic, create, read, write)
        if not features.replicates:
            return
        losses = internal_topics.losses(features.flow)
        yield from self._internal(role, losses, create, write)
        yield from self._internal(
            role,
            losses,
            read,
            why="mm2 losses, mm2_source_unaccepted_losses, and mm2.on.data.loss unless it is continue",
        )
        if features.offset_syncs is not None:
            yield from self._internal(role, features.offset_syncs, create, write)
        if features.exact_offsets is not None:
            yield from self._internal(role, features.exact_offsets, create, read, write)
        if features.dead_letters is not None:
            yield from self._internal(role, features.dead_letters, create, write)
        if features.audit is not None:
            yield from self._internal(role, features.audit, create, write)

    def _checkpoints(self, topic: InternalTopic) -> Iterator[RequiredAcl]:
        role, features = AclRole.CHECKPOINTS, self._features
        why = "read the committed offsets of consumer groups"
        for group in features.groups:
            yield _acl(role, self._source, Operation.DESCRIBE, why, kind=ResourceType.GROUP, pattern=group)
        if features.offset_syncs is not None:
            yield from self._internal(role, features.offset_syncs, Operation.READ, why="translate offsets")
        yield from self._internal(role, topic, Operation.CREATE, Operation.READ, Operation.WRITE)

    def _group_sync(self) -> Iterator[RequiredAcl]:
        role, cluster = AclRole.GROUP_SYNC, self._target
        why = "commit translated offsets of groups without members"
        for group in self._features.groups:
            yield _acl(role, cluster, Operation.READ, why, kind=ResourceType.GROUP, pattern=group)
        yield from _on_topics(role, cluster, self._remote(self._features.topics), Operation.READ, why)

    def _heartbeats(self) -> Iterator[RequiredAcl]:
        role, features = AclRole.HEARTBEATS, self._features
        if features.heartbeats:
            topic = internal_topics.heartbeats(features.policy)
            yield from self._internal(role, topic, Operation.CREATE, Operation.WRITE)
            yield from self._internal(role, topic, Operation.READ, why="mm2 heartbeats")
        if features.replicates:
            remote = self._remote(AclPattern(topic) for topic in features.upstream_heartbeats)
            yield from _on_topics(role, self._target, remote, Operation.READ, "mm2 heartbeats")

    def _remote(self, patterns: Iterable[AclPattern]) -> tuple[AclPattern, ...]:
        return minimal(remote_pattern(one, self._features.policy, self._features.source_alias) for one in patterns)

    def _translate(self) -> Iterator[RequiredAcl]:
        role, features = AclRole.TRANSLATE, self._features
        why = "with --time"
        yield from _on_topics(role, self._source, self._topics, Operation.DESCRIBE, why)
        if features.offset_syncs is not None:
            why = "translate positions that the exact offset map does not cover"
            yield from self._internal(role, features.offset_syncs, Operation.READ, why=why)
        if features.exact_offsets is not None:
            yield from self._internal(role, features.exact_offsets, Operation.READ, why="translate positions")
        why = "list partitions"
        yield from _on_topics(role, self._target, self._remote_topics, Operation.DESCRIBE, why)
        why = "with --time, while the source does not answer"
        yield from _on_topics(role, self._target, self._remote_topics, Operation.DESCRIBE_CONFIGS, why)
        if features.checkpoints is not None:
            for group in features.groups:
                kind = ResourceType.GROUP
                yield _acl(role, self._source, Operation.DESCRIBE, "with --groups", kind=kind, pattern=group)
            yield from self._internal(role, features.checkpoints, Operation.READ, why="with --groups")

    def _client(self) -> Iterator[RequiredAcl]:
        role, cluster, features = AclRole.CLIENT, self._target, self._features
        if features.checkpoints is not None:
            yield from self._internal(role, features.checkpoints, Operation.READ, why="remote_consumer_offsets")
        visible = [*(self._remote_topics if features.replicates else ())]
        if features.heartbeats:
            visible.append(AclPattern(features.policy.heartbeats_topic()))
        why = "list topics: remote_topics, upstream_clusters, replication_hops"
        yield from _on_topics(role, cluster, minimal(visible), Operation.DESCRIBE, why)

    def _internal(
        self, role: AclRole, topic: InternalTopic, *operations: Operation, why: str = ""
    ) -> Iterator[RequiredAcl]:
        """Yield the ACLs of an internal topic, with DESCRIBE_CONFIGS if it is created and checked."""
        cluster = self._source if topic.side is Side.SOURCE else self._target
        pattern = AclPattern(topic.name)
        for operation in operations:
            yield from _on_topics(role, cluster, (pattern,), operation, why or _WHY[operation])
        if topic.checked and Operation.CREATE in operations:
            yield from _on_topics(role, cluster, (pattern,), Operation.DESCRIBE_CONFIGS, "check that it is compacted")


_WHY = {
    Operation.CREATE: "create the topic, unless it exists",
    Operation.READ: "read its records",
    Operation.WRITE: "write its records",
}


def _on_topics(
    role: AclRole, cluster: str, patterns: Iterable[AclPattern], operation: Operation, why: str
) -> Iterator[RequiredAcl]:
    for pattern in patterns:
        yield _acl(role, cluster, operation, why, kind=ResourceType.TOPIC, pattern=pattern)


def _acl(
    role: AclRole, cluster: str, operation: Operation, why: str, *, kind: ResourceType, pattern: AclPattern
) -> RequiredAcl:
    return RequiredAcl(role=role, cluster=cluster, resource_type=kind, pattern=pattern, operation=operation, why=why)
