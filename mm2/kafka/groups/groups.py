"""Consumer groups of a cluster: listing, states, committed offsets, and commits on behalf of a group."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from aiokafka.protocol.commit import OffsetCommitRequest

from mm2.core.access.rights import on_cluster
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.checkpoints import CommittedOffset
from mm2.core.topics.acls import Operation
from mm2.kafka.chunks import chunks
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.groups.group_coordinators import ask_coordinators
from mm2.kafka.groups.group_errors import GroupActive, commit_error, describe_error
from mm2.kafka.groups.group_members import described
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.group_offset_requests import CommittedOffsets, OffsetFetchRequest, fetches_many
from mm2.kafka.protocol.group_requests import (
    CONSUMER_PROTOCOL,
    ListedGroup,
    ListGroupsRequest,
)
from mm2.kafka.protocol.raw_request import by_topic
from mm2.kafka.retrying import API_TIMEOUT_MS, retried

__all__ = [
    "COMMIT_BYTES",
    "GroupActive",
    "ListedGroup",
    "commit_offsets",
    "commit_row_bytes",
    "committed_offsets",
    "group_states",
    "list_groups",
]

_CONSUMER_PROTOCOLS = (CONSUMER_PROTOCOL, "")  # "": a group that has committed offsets but never had members
_CONSUMER_KINDS = ("classic", "consumer", None)  # neither share nor streams; None: not reported by older brokers

_DESCRIBED_A_REQUEST = 100  # the description of a group with hundreds of members has as many KB
_FETCHED_A_REQUEST = 100  # a response of 300 KB at 100 partitions each
COMMIT_BYTES = 500_000  # a commit becomes one batch in __consumer_offsets, whose limit is 1 MB by default
_COMMIT_ROW_BYTES = 100  # of a record there, without group, topic and metadata

_CommitRow = tuple[TopicPartition, tuple[int, str]]

_NO_GENERATION = -1  # with an empty member id: a commit from outside the group
_BROKER_RETENTION = -1

_COORDINATOR_MOVES = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


async def list_groups(cluster: Cluster, *, timeout_ms: int = API_TIMEOUT_MS) -> list[ListedGroup]:
    """Return the consumer groups of all brokers, of the classic and the new protocol, with and without members.

    Excludes Connect groups, share groups (KIP-932) and streams groups (KIP-1071), as Java's ``forConsumerGroups``. A
    broker silently omits groups that we may not describe. Raises ClusterError if a broker does not answer within
    ``timeout_ms``, since groups missing from an incomplete list would look deleted.
    """
    return [group for group in await _all_groups(cluster, timeout_ms) if _is_consumer_group(group)]


async def group_states(
    cluster: Cluster, groups: Collection[str], *, timeout_ms: int = API_TIMEOUT_MS
) -> dict[str, str | ClusterError | None]:
    """Return each group's state as Kafka names it (Empty, Stable, …), None if it does not exist, or the error.

    For a group of another kind the value is that kind, such as ``share group`` or ``connect group``. All groups are
    listed first, because DescribeGroups before version 6 reports a live group of the new protocol (KIP-848) as Dead.
    Groups missing from the list are described by name, since a list omits groups that we may not describe.
    """
    if not groups:
        return {}
    deadline = time.monotonic() + timeout_ms / 1000
    wanted = dict.fromkeys(groups)
    states: dict[str, str | ClusterError | None] = {}
    try:
        for group in await _all_groups(cluster, timeout_ms):
            if group.group in wanted and group.state is not None:
                states[group.group] = _state(group.state, group.protocol_type)
    except ClusterError as error:
        return dict.fromkeys(wanted, error)

    async def ask(node_id: int, some: Sequence[str]) -> dict[str, str | ClusterError | None]:
        return await _describe(cluster, node_id, some)

    unlisted = [group for group in wanted if group not in states]
    left_ms = int(1000 * max(0.0, deadline - time.monotonic()))
    return states | await ask_coordinators(
        cluster, unlisted, ask, groups_a_request=_DESCRIBED_A_REQUEST, timeout_ms=left_ms
    )


ReadCommitted = Callable[[Cluster, Collection[str]], Awaitable[Mapping[str, CommittedOffsets | ClusterError]]]
"""Reads the committed offsets of groups (`committed_offsets`)."""


async def committed_offsets(
    cluster: Cluster, groups: Collection[str], *, timeout_ms: int = API_TIMEOUT_MS
) -> dict[str, CommittedOffsets | ClusterError]:
    """Return all committed offsets of each group, or the error. None: an offset below 0, which some clients commit.

    A group that does not exist has no offsets. A broker silently omits topics that we may not describe. Pending commits
    of open transactions are not waited for (as with Java's ``requireStable=false``).
    """

    async def ask(node_id: int, some: Sequence[str]) -> dict[str, CommittedOffsets | BrokerError]:
        at_once = len(some) if fetches_many(await cluster.versions(node_id)) else 1
        found: dict[str, CommittedOffsets | BrokerError] = {}
        for part in chunks(some, at_once):
            found |= await cluster.send(node_id, OffsetFetchRequest(part))
        return found

    return await ask_coordinators(cluster, groups, ask, groups_a_request=_FETCHED_A_REQUEST, timeout_ms=timeout_ms)


async def commit_offsets(
    cluster: Cluster,
    group: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    timeout_ms: int = API_TIMEOUT_MS,
) -> dict[TopicPartition, ClusterError | None]:
    """Commit offsets for a group without members, as an administrator. Return None or the error for each partition.

    A group that does not exist is created. GroupActive: the group has members, and its own offset is kept.
    """

    def row_bytes(row: _CommitRow) -> int:
        one, (_, metadata) = row
        return commit_row_bytes(group, one, metadata)

    async def ask(node_id: int, _: Sequence[str]) -> dict[str, dict[TopicPartition, ClusterError | None]]:
        outcome: dict[TopicPartition, ClusterError | None] = {}
        rows = ((one, (committed.offset, committed.metadata)) for one, committed in offsets.items())
        for part in chunks(rows, COMMIT_BYTES, row_bytes):
            outcome |= await _commit(cluster, node_id, group, part)
        return {group: outcome}

    if not offsets:
        return {}
    outcome = await ask_coordinators(cluster, [group], ask, groups_a_request=1, timeout_ms=timeout_ms)
    found = outcome[group]
    return dict.fromkeys(offsets, found) if isinstance(found, ClusterError) else found


def commit_row_bytes(group: str, partition: TopicPartition, metadata: str) -> int:
    """Return the approximate size of a committed offset in __consumer_offsets."""
    return _COMMIT_ROW_BYTES + len(f"{group}{partition.topic}{metadata}".encode())


async def _all_groups(cluster: Cluster, timeout_ms: int) -> list[ListedGroup]:
    async def attempt() -> list[ListedGroup]:
        brokers = (await cluster.metadata(())).brokers
        found: dict[str, ListedGroup] = {}  # a group that changes its coordinator meanwhile may be listed twice
        for groups in await asyncio.gather(*(_groups_of(cluster, node_id) for node_id in brokers)):
            if isinstance(groups, ClusterError):
                raise groups
            found.update((group.group, group) for group in groups)
        return list(found.values())

    return await retried(attempt, cluster.settings, timeout_ms=timeout_ms)


async def _groups_of(cluster: Cluster, node_id: int) -> list[ListedGroup] | ClusterError:
    try:
        error, groups = await cluster.send(node_id, ListGroupsRequest())
    except ClusterError as problem:
        return problem
    right = on_cluster(Operation.DESCRIBE, cluster.settings.alias)
    return BrokerError(error, f"list the groups of broker {node_id}", right=right) if error else groups


def _is_consumer_group(group: ListedGroup) -> bool:
    kind = None if group.kind is None else group.kind.lower()
    return group.protocol_type in _CONSUMER_PROTOCOLS and kind in _CONSUMER_KINDS


def _state(state: str, protocol_type: str) -> str | None:
    """Return the state to report; None if the group does not exist."""
    if state.lower() == "dead":
        return None
    if protocol_type not in _CONSUMER_PROTOCOLS:
        return f"{protocol_type} group"
    return state


async def _describe(cluster: Cluster, node_id: int, groups: Sequence[str]) -> dict[str, str | ClusterError | None]:
    return {
        one.group: describe_error(one.error, "describe group", one.group, one.message)
        if one.error
        else _state(one.state, one.protocol_type)
        for one in await described(cluster, node_id, groups)
    }


async def _commit(
    cluster: Cluster, node_id: int, group: str, rows: Sequence[_CommitRow]
) -> dict[TopicPartition, ClusterError | None]:
    """Commit some rows. Raises the error that a coordinator change causes, since it concerns all partitions."""
    topics = [
        (topic, [(partition, *position) for partition, position in partitions])
        for topic, partitions in by_topic(rows).items()
    ]
    answer = await cluster.send(node_id, OffsetCommitRequest(group, _NO_GENERATION, "", _BROKER_RETENTION, topics))
    outcome: dict[TopicPartition, ClusterError | None] = {}
    for topic, partitions in answer.topics:
        for partition, code in partitions:
            one = TopicPartition(topic, partition)
            outcome[one] = commit_error(code, group, one).on(cluster.settings.alias) if code else None
            if code in _COORDINATOR_MOVES:
                raise commit_error(code, group, one)
    return outcome
