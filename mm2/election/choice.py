"""Which election a flow has: by its Kafka group, or on ZooKeeper while that group is held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mm2.core.zookeeper_settings import ZooKeeperSettings
from mm2.election.group_messages import HOLDING
from mm2.election.holding import HoldingElection
from mm2.election.kafka_group import GroupSettings, KafkaGroup
from mm2.election.protocol import Assign, Election, Json, MemberInfo
from mm2.election.zookeeper import ZooKeeperElection
from mm2.kafka.cluster import Cluster


def choose_election(
    zookeeper: ZooKeeperSettings | None, cluster: Cluster, group: GroupSettings, info: MemberInfo, assign: Assign
) -> Election:
    """An election of a flow, not entered yet: on ``zookeeper`` where that is given, else by the ``group`` itself.
    ``cluster`` is the flow's target, by a client of the member's own."""
    if zookeeper is None:
        return KafkaGroup(cluster, group, info, assign)
    held = KafkaGroup(cluster, replace(group, protocols=holding(zookeeper)), info, _nothing)
    return HoldingElection(held, lambda latest: ZooKeeperElection(zookeeper, latest, assign), info)


def holding(zookeeper: ZooKeeperSettings) -> tuple[str, ...]:
    """Protocol names of who holds a group: one per server, with the path of the election.

    So the broker refuses a node that would elect elsewhere: it shares no server with all others, or no path. One whose
    file has a server more or less is let in, as while servers are replaced one by one.
    """
    return tuple(f"{HOLDING}{server.lower()}{zookeeper.path}" for server in zookeeper.servers)


def _nothing(_generation: int, _members: Mapping[str, MemberInfo]) -> dict[str, Json]:
    """What the held group assigns: ZooKeeper decides."""
    return {}
