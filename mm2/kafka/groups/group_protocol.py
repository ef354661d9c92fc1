"""What a coordinator reports about the members of a classic group."""

from __future__ import annotations

from dataclasses import dataclass

from aiokafka.protocol.admin import DescribeGroupsRequest

from mm2.kafka.client.cluster import Cluster, CoordinatorKind
from mm2.kafka.errors import ClusterError


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProtocol:
    """``protocol`` is empty during a rebalance. ``members`` are "client ID at host", sorted."""

    protocol_type: str = ""
    protocol: str = ""
    members: tuple[str, ...] = ()


async def group_protocol(cluster: Cluster, group_id: str) -> GroupProtocol:
    """Return the protocol and the members of a group; empty if the broker does not report them. Does not raise."""
    try:
        coordinator = await cluster.coordinator(CoordinatorKind.GROUP, group_id)
        answer = await cluster.send(coordinator, DescribeGroupsRequest([group_id]))
    except ClusterError:
        return GroupProtocol()
    for _, _, _, protocol_type, protocol, members, *_ in answer.groups:
        hosts = sorted({f"{member[1]} at {member[2].lstrip('/')}" for member in members})
        return GroupProtocol(protocol_type=protocol_type or "", protocol=protocol or "", members=tuple(hosts))
    return GroupProtocol()
