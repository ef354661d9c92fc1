"""Consumer groups of a cluster: which there are, what they have committed, and commits on their behalf."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator, Mapping, Sequence

from aiokafka.protocol.commit import OffsetCommitRequest

from mm2.core.checkpoints import CommittedOffset
from mm2.core.names import TopicPartition
from mm2.kafka.cluster import Cluster
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.group_coordinators import ask_coordinators
from mm2.kafka.group_errors import GroupActive, commit_error, describe_error
from mm2.kafka.group_offset_requests import CommittedOffsets, OffsetFetchRequest, fetched_offsets, fetches_many
from mm2.kafka.group_requests import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_PROTOCOL,
    DescribeConsumerGroupsRequest,
    DescribeGroupsRequest,
    GroupState,
    ListedGroup,
    ListGroupsRequest,
    listed_groups,
)
from mm2.kafka.raw_request import by_topic
from mm2.kafka.retrying import API_TIMEOUT_MS, retried

__all__ = ["GroupActive", "ListedGroup", "commit_offsets", "committed_offsets", "group_states", "list_groups"]

_CONSUMER_PROTOCOLS = (CONSUMER_PROTOCOL, "")  # "": a group that only ever committed, without members
_CONSUMER_KINDS = ("classic", "consumer", None)  # not share, not streams; None: the broker is too old for those

_DESCRIBED_A_REQUEST = 100  # a group with hundreds of members is described by as many KB
_FETCHED_A_REQUEST = 100  # at 100 partitions each: 300 KB of answer
_COMMIT_BYTES = 500_000  # a commit becomes one batch in __consumer_offsets, whose limit is 1 MB by default
_COMMIT_ROW_BYTES = 100  # of a record there, beside group, topic and metadata

_NO_GENERATION = -1  # with an empty member id: a commit from outside the group
_BROKER_RETENTION = -1

_COORDINATOR_MOVES = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_NOT_OF_THE_NEW_PROTOCOL = (
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNSUPPORTED_VERSION,  # the broker's group.coordinator.rebalance.protocols lacks it
    ErrorCode.INVALID_GROUP_ID,  # the empty name, which only classic groups may have
)


async def list_groups(cluster: Cluster, *, timeout_ms: int = API_TIMEOUT_MS) -> list[ListedGroup]:
    """The consumer groups of all brokers, of the classic and the new protocol, with and without members.

    Not those of Connect, share groups (KIP-932), streams groups (KIP-1071). As Java's ``forConsumerGroups``. A broker
    leaves out, without a word, groups that we may not describe. Raises ClusterError when one broker cannot be asked
    within ``timeout_ms``: an incomplete list would look like groups that are gone.
    """
    return [group for group in await _all_groups(cluster, timeout_ms) if _is_consumer_group(group)]


async def group_states(
    cluster: Cluster, groups: Collection[str], *, timeout_ms: int = API_TIMEOUT_MS
) -> dict[str, str | ClusterError | None]:
    """Each group's state in Kafka's words (Empty, Stable, …); None: no such group. Or why it is not known.

    Something else of that name has no state of a consumer group: it is called ``share group``, ``connect group`` and
    the like. All are listed first, because DescribeGroups before version 6 calls a live group of the new protocol
    (KIP-848) Dead. Those that are not listed are asked for by name, since a list leaves out what we may not describe.
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


async def committed_offsets(
    cluster: Cluster, groups: Collection[str], *, timeout_ms: int = API_TIMEOUT_MS
) -> dict[str, CommittedOffsets | ClusterError]:
    """All that each group has committed, or why that is not known. None: an offset below 0, which some clients commit.

    A group that does not exist has committed nothing. A broker leaves out, without a word, topics that we may not
    describe. What open transactions hold is not waited for (as Java's ``requireStable=false``).
    """

    async def ask(node_id: int, some: Sequence[str]) -> dict[str, CommittedOffsets | BrokerError]:
        at_once = len(some) if fetches_many(await cluster.versions(node_id)) else 1
        found: dict[str, CommittedOffsets | BrokerError] = {}
        for start in range(0, len(some), at_once):
            found |= await fetched_offsets(
                await cluster.send(node_id, OffsetFetchRequest(some[start : start + at_once]))
            )
        return found

    return await ask_coordinators(cluster, groups, ask, groups_a_request=_FETCHED_A_REQUEST, timeout_ms=timeout_ms)


async def commit_offsets(
    cluster: Cluster,
    group: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    timeout_ms: int = API_TIMEOUT_MS,
) -> dict[TopicPartition, ClusterError | None]:
    """Commit for a group without members, as an administrator does. Outcome per partition: None for done.

    A group that does not exist comes into being. GroupActive: it has members, and keeps its own offset there.
    """

    async def ask(node_id: int, _: Sequence[str]) -> dict[str, dict[TopicPartition, ClusterError | None]]:
        outcome: dict[TopicPartition, ClusterError | None] = {}
        for part in _commit_parts(group, offsets):
            outcome |= await _commit(cluster, node_id, group, part)
        return {group: outcome}

    if not offsets:
        return {}
    outcome = await ask_coordinators(cluster, [group], ask, groups_a_request=1, timeout_ms=timeout_ms)
    found = outcome[group]
    return dict.fromkeys(offsets, found) if isinstance(found, ClusterError) else found


async def _all_groups(cluster: Cluster, timeout_ms: int) -> list[ListedGroup]:
    async def attempt() -> list[ListedGroup]:
        brokers = (await cluster.metadata(())).brokers
        found: dict[str, ListedGroup] = {}  # a group that moves meanwhile may be listed by two
        for groups in await asyncio.gather(*(_groups_of(cluster, node_id) for node_id in brokers)):
            if isinstance(groups, ClusterError):
                raise groups
            found.update((group.group, group) for group in groups)
        return list(found.values())

    return await retried(attempt, cluster.settings, timeout_ms=timeout_ms)


async def _groups_of(cluster: Cluster, node_id: int) -> list[ListedGroup] | ClusterError:
    try:
        error, groups = await listed_groups(await cluster.send(node_id, ListGroupsRequest()))
    except ClusterError as problem:
        return problem
    return BrokerError(error, f"list the groups of broker {node_id}") if error else groups


def _is_consumer_group(group: ListedGroup) -> bool:
    kind = None if group.kind is None else group.kind.lower()
    return group.protocol_type in _CONSUMER_PROTOCOLS and kind in _CONSUMER_KINDS


def _state(state: str, protocol_type: str) -> str | None:
    """None where there is no group."""
    if state.lower() == "dead":
        return None
    if protocol_type not in _CONSUMER_PROTOCOLS:
        return f"{protocol_type} group"
    return state


async def _describe(cluster: Cluster, node_id: int, groups: Sequence[str]) -> dict[str, str | ClusterError | None]:
    """Ask in the new protocol's words first: only its groups answer to them."""
    described: list[GroupState] = []
    if CONSUMER_GROUP_DESCRIBE in await cluster.versions(node_id):
        answer = await cluster.send(node_id, DescribeConsumerGroupsRequest(groups))
        described += [one for one in answer if one.error not in _NOT_OF_THE_NEW_PROTOCOL]
    known = {one.group for one in described}
    classic = [group for group in groups if group not in known]
    if classic:
        described += await cluster.send(node_id, DescribeGroupsRequest(classic))
    return {
        group: describe_error(error, "describe group", group, words) if error else _state(state, protocol_type)
        for group, error, words, state, protocol_type in described
    }


async def _commit(
    cluster: Cluster, node_id: int, group: str, rows: Sequence[tuple[TopicPartition, tuple[int, str]]]
) -> dict[TopicPartition, ClusterError | None]:
    """Raises the error that a change of the coordinator causes; it concerns all partitions."""
    topics = [
        (topic, [(partition, *position) for partition, position in partitions])
        for topic, partitions in by_topic(rows).items()
    ]
    answer = await cluster.send(node_id, OffsetCommitRequest(group, _NO_GENERATION, "", _BROKER_RETENTION, topics))
    outcome: dict[TopicPartition, ClusterError | None] = {}
    for topic, partitions in answer.topics:
        for partition, code in partitions:
            one = TopicPartition(topic, partition)
            outcome[one] = commit_error(code, group, one) if code else None
            if code in _COORDINATOR_MOVES:
                raise commit_error(code, group, one)
    return outcome


def _commit_parts(
    group: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> Iterator[list[tuple[TopicPartition, tuple[int, str]]]]:
    part: list[tuple[TopicPartition, tuple[int, str]]] = []
    size = 0
    for one, committed in offsets.items():
        row = _COMMIT_ROW_BYTES + len(f"{group}{one.topic}{committed.metadata}".encode())
        if part and size + row > _COMMIT_BYTES:
            yield part
            part, size = [], 0
        part.append((one, (committed.offset, committed.metadata)))
        size += row
    if part:
        yield part
