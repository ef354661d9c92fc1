"""Who holds a group that refuses us."""

from __future__ import annotations

from aiokafka.protocol.admin import DescribeGroupsRequest

from mm2.election.group_messages import ELECTING, HOLDING, PROTOCOL_TYPE
from mm2.kafka.cluster import Cluster, CoordinatorKind
from mm2.kafka.errors import ClusterError

_CONNECT = "connect"  # protocol type of Kafka Connect, and so of Java's MirrorMaker


async def describe_holder(cluster: Cluster, group_id: str) -> str:
    """One sentence: who holds the group, as far as the broker tells."""
    where = f"group {group_id}" + (f" on cluster {cluster.settings.alias}" if cluster.settings.alias else "")
    protocol_type, protocol, members = await _described(cluster, group_id)
    from_hosts = f" ({', '.join(members)})" if members else ""
    if protocol_type == _CONNECT:
        return f"a Java MirrorMaker holds {where}{from_hosts}: waiting until it ends"
    if protocol_type == PROTOCOL_TYPE:
        return (
            f"{_told(protocol)} hold {where}{from_hosts}, and this node's file says otherwise: waiting until they end"
        )
    if protocol_type:
        return f"another tool (group protocol {protocol_type}) holds {where}{from_hosts}: waiting until it ends"
    return f"a Java MirrorMaker or another tool holds {where}: waiting until it ends"


def _told(protocol: str) -> str:
    """Nodes of ours, by the protocol their group has agreed on; none while a round goes on."""
    if protocol == ELECTING:
        return "nodes with mm2.election = kafka"
    if protocol.startswith(HOLDING):
        return f"nodes with mm2.election = zookeeper, by {protocol.removeprefix(HOLDING)},"
    return "nodes with another mm2.election or mm2.zookeeper.connect"


async def _described(cluster: Cluster, group_id: str) -> tuple[str, str, list[str]]:
    """Protocol type, protocol, and members as "client id at host"; nothing where the broker does not tell."""
    try:
        coordinator = await cluster.coordinator(CoordinatorKind.GROUP, group_id)
        answer = await cluster.send(coordinator, DescribeGroupsRequest([group_id]))
    except ClusterError:
        return "", "", []
    for _, _, _, protocol_type, protocol, members, *_ in answer.groups:
        hosts = sorted({f"{member[1]} at {member[2].lstrip('/')}" for member in members})
        return protocol_type or "", protocol or "", hosts
    return "", "", []
