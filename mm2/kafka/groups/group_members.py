"""The members of a group, and the partitions that are assigned to each."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from mm2.core.naming.names import TopicPartition
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.groups.group_coordinators import ask_coordinators
from mm2.kafka.groups.group_errors import describe_error
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.group_requests import (
    CONSUMER_GROUP_DESCRIBE,
    ConsumerGroupDescribeRequest,
    DescribedGroup,
    DescribeGroupsRequest,
    GroupMember,
)
from mm2.kafka.protocol.schema import INT16, INT32, STRING, decoder
from mm2.kafka.retrying import API_TIMEOUT_MS

_NOT_OF_THE_NEW_PROTOCOL = (
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNSUPPORTED_VERSION,  # not in the broker's group.coordinator.rebalance.protocols
    ErrorCode.INVALID_GROUP_ID,  # the empty name, which only classic groups can have
)

_assignment = decoder(
    {"_version": INT16, "topics": [{"name": STRING, "partitions": [INT32]}]}, 0, flexible=False
)  # org.apache.kafka.clients.consumer.internals.ConsumerProtocol; user data follows


async def describe_group(
    cluster: Cluster, group: str, *, timeout_ms: int = API_TIMEOUT_MS
) -> DescribedGroup | ClusterError:
    """Return the group with its members, or the error that persisted for ``timeout_ms``.

    A group that does not exist has the state Dead.
    """

    async def ask(node_id: int, groups: Sequence[str]) -> dict[str, DescribedGroup | ClusterError]:
        return {
            one.group: describe_error(one.error, "describe group", one.group, one.message) if one.error else one
            for one in await described(cluster, node_id, groups)
        }

    return (await ask_coordinators(cluster, [group], ask, groups_a_request=1, timeout_ms=timeout_ms))[group]


async def described(cluster: Cluster, node_id: int, groups: Sequence[str]) -> list[DescribedGroup]:
    """Describe with the request of the new protocol first, which only finds groups of that protocol."""
    found: list[DescribedGroup] = []
    if CONSUMER_GROUP_DESCRIBE in await cluster.versions(node_id):
        answer = await cluster.send(node_id, ConsumerGroupDescribeRequest(groups))
        found += [one for one in answer if one.error not in _NOT_OF_THE_NEW_PROTOCOL]
    known = {one.group for one in found}
    classic = [group for group in groups if group not in known]
    if classic:
        found += await cluster.send(node_id, DescribeGroupsRequest(classic))
    return found


def assigned_partitions(member: GroupMember) -> frozenset[TopicPartition]:
    """Return the partitions of a consumer; none if its assignment is not a consumer's, or during a rebalance."""
    topics: Mapping[str, Sequence[int]] = {}
    if not isinstance(member.assignment, bytes):
        topics = member.assignment
    elif member.assignment:
        try:
            (rows,), _ = _assignment(member.assignment, 0)
        except (struct.error, IndexError):
            rows = None
        topics = {name or "": numbers or () for name, numbers in rows or ()}
    return frozenset(TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers)
