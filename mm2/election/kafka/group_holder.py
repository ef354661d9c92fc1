"""Description of the program that holds a group which rejects this node."""

from __future__ import annotations

from mm2.core.settings.election import BACKENDS
from mm2.election.kafka.group_messages import ELECTING, HOLDING, PROTOCOL_TYPE
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.groups.group_protocol import group_protocol

_CONNECT = "connect"  # protocol type of Kafka Connect, and so of Java's MirrorMaker


async def describe_holder(cluster: Cluster, group_id: str) -> str:
    """Return a message naming the holder of the group, as far as the broker reports it."""
    where = f"group {group_id}" + (f" on cluster {cluster.settings.alias}" if cluster.settings.alias else "")
    found = await group_protocol(cluster, group_id)
    from_hosts = f" ({', '.join(found.members)})" if found.members else ""
    if found.protocol_type == _CONNECT:
        return f"a Java MirrorMaker holds {where}{from_hosts}; waiting until it stops"
    if found.protocol_type == PROTOCOL_TYPE:
        ours = _our_nodes(found.protocol)
        return f"{ours} hold {where}{from_hosts}, but this node is configured differently; waiting until they stop"
    if found.protocol_type:
        return f"another tool (group protocol {found.protocol_type}) holds {where}{from_hosts}; waiting until it stops"
    return f"a Java MirrorMaker or another tool holds {where}; waiting until it stops"


def _our_nodes(protocol: str) -> str:
    """Describe the nodes that hold the group by its protocol name, which is empty during a rebalance."""
    if protocol == ELECTING:
        return "nodes with mm2.election = kafka"
    if protocol.startswith(HOLDING):
        place = protocol.removeprefix(HOLDING)
        backend = next((name for name in BACKENDS if place.startswith(f"{name} ")), "zookeeper")
        return f"nodes with mm2.election = {backend} ({place.removeprefix(f'{backend} ')})"
    return "nodes with another mm2.election or mm2.zookeeper.connect"
