"""What a fault strikes: clusters of one or three brokers, a group of nodes, cables of one node, and ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.faults.node_group import FLOW, PARTITIONS, NodeGroup
from tests.lab.cable import CUT_OFF, Cable, listener_behind
from tests.lab.cluster import KafkaCluster
from tests.lab.zookeeper import ZooKeeperServer

NAMES = ("one", "two", "three", "four", "five")
WIRED = "one"  # the node whose connections to brokers go through cables
STARTED = 480.0  # seconds until all nodes of the largest topology have work, each with its own Spark, on two cores
# The lab's own clients ask every 5 minutes for all topics that they have asked for, deleted ones included.
NO_CREATION_BY_CLIENTS = {"auto.create.topics.enable": "false"}
SETTLED = 60.0  # seconds until the replicas of a broker that was killed are in sync


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Numbers of nodes and of brokers on each side, and the election. ``lanes``: of each node.

    ``source_tasks_only``: without heartbeat and checkpoint task, so that a node with one task copies records.
    """

    nodes: int
    brokers: int
    election: str = "kafka"
    lanes: int = 1
    tasks_max: int = 4
    source_tasks_only: bool = False

    def __str__(self) -> str:
        return f"{self.nodes} nodes, {self.brokers} broker{'s' if self.brokers > 1 else ''}, {self.election}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A topology that runs. ``source_cables`` and ``target_cables`` connect node `WIRED` with each broker."""

    topology: Topology
    group: NodeGroup
    source_cables: tuple[Cable, ...]
    target_cables: tuple[Cable, ...]
    zookeeper: ZooKeeperServer | None

    @property
    def clusters(self) -> tuple[KafkaCluster, KafkaCluster]:
        return self.group.source, self.group.target

    def wait_recovered(self) -> None:
        """Wait until all nodes share the flow and all replicas are in sync. Raises GaveUp."""
        self.group.wait_shared()
        for cluster in self.clusters:
            cluster.wait_in_sync(SETTLED)

    def leads(self, name: str) -> bool:
        """Return whether this node leads the flow."""
        view = self.group.view()
        return view is not None and view.leader == name


@contextmanager
def running(topology: Topology) -> Iterator[Stage]:
    """Start everything and wait until all nodes have work."""
    with ExitStack() as ends:
        sides = []
        for name in ("source", "target"):
            cables = [ends.enter_context(Cable(f"{WIRED} to {name}-{n + 1}")) for n in range(topology.brokers)]
            cluster = ends.enter_context(
                KafkaCluster(
                    name,
                    brokers=topology.brokers,
                    listeners=(listener_behind(*cables),),
                    properties=NO_CREATION_BY_CLIENTS,
                )
            )
            for cable, broker in zip(cables, cluster.brokers, strict=True):
                cable.plug(broker.address(CUT_OFF))
            sides.append((cluster, tuple(cables)))
        (source, source_cables), (target, target_cables) = sides
        properties = {"mm2.lanes": str(topology.lanes), "tasks.max": str(topology.tasks_max)}
        if topology.source_tasks_only:
            properties |= {"emit.heartbeats.enabled": "false", "emit.checkpoints.enabled": "false"}
        zookeeper = None
        if topology.election == "zookeeper":
            zookeeper = ends.enter_context(ZooKeeperServer())
            properties |= {"mm2.election": "zookeeper", "mm2.zookeeper.connect": zookeeper.address}
        wired = {
            "A.bootstrap.servers": ",".join(cable.address for cable in source_cables),
            "B.bootstrap.servers": ",".join(cable.address for cable in target_cables),
        }
        source.create_topic("t-first", PARTITIONS)
        names = NAMES[: topology.nodes]
        group = ends.enter_context(
            NodeGroup(source, target, names, properties=properties, properties_of={WIRED: wired})
        )
        group.wait_shared(timeout=STARTED)
        yield Stage(
            topology=topology,
            group=group,
            source_cables=source_cables,
            target_cables=target_cables,
            zookeeper=zookeeper,
        )


def coordinator_group() -> str:
    """Return the group that the nodes of the flow are members of."""
    return f"{FLOW.partition('->')[0]}-mm2"
