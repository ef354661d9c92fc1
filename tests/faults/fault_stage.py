"""What a fault strikes: clusters of one or three brokers, a group of nodes, cables of one node, and ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from tests.faults.java_group import JavaGroup
from tests.faults.mode import AT_LEAST_ONCE, Mode
from tests.faults.node_group import FLOW, PARTITIONS, NodeGroup
from tests.lab.cable import CUT_OFF, Cable, listener_behind
from tests.lab.cluster import KafkaCluster
from tests.lab.jars import KAFKA_4
from tests.lab.skewed_clock import SkewedClock
from tests.lab.zookeeper import ZooKeeperServer

NAMES = ("one", "two", "three", "four", "five")
WIRED = "one"  # the node whose connections to brokers go through cables
STARTED = 480.0  # seconds until all nodes of the largest topology have work, each with its own Spark, on two cores
# The lab's own clients ask every 5 minutes for all topics that they have asked for, deleted ones included.
NO_CREATION_BY_CLIENTS = {"auto.create.topics.enable": "false"}
SETTLED = 60.0  # seconds until the replicas of a broker that was killed are in sync


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Numbers of nodes and of brokers on each side, the brokers' version, the election, and what the nodes run.

    ``lanes``: of each node. ``source_tasks_only``: without heartbeat and checkpoint task, so that a node with one task
    copies records. ``clocks``: whether the nodes' wall clocks can be skewed. ``only``: the only fault to run in it.
    """

    nodes: int
    brokers: int
    mode: Mode = AT_LEAST_ONCE
    version: str = KAFKA_4
    election: str = "kafka"
    lanes: int = 1
    tasks_max: int = 4
    source_tasks_only: bool = False
    clocks: bool = False
    only: str = ""

    def __str__(self) -> str:
        brokers = f"{self.brokers} broker{'s' if self.brokers > 1 else ''}"
        version = "" if self.version == KAFKA_4 else f" {self.version}"
        return f"{self.nodes} nodes, {brokers}{version}, {self.election}{', clocks' if self.clocks else ''}"

    @property
    def label(self) -> str:
        """The topology with the mode, for the names of tests."""
        return f"{self.mode}: {self}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A topology that runs. ``source_cables`` and ``target_cables`` connect node `WIRED` with each broker."""

    topology: Topology
    group: NodeGroup | JavaGroup
    source_cables: tuple[Cable, ...]
    target_cables: tuple[Cable, ...]
    zookeeper: ZooKeeperServer | None
    clocks: Mapping[str, SkewedClock] = field(default_factory=dict)

    @property
    def mode(self) -> Mode:
        return self.topology.mode

    @property
    def clusters(self) -> tuple[KafkaCluster, KafkaCluster]:
        return self.group.source, self.group.target

    def wait_recovered(self) -> None:
        """Wait until all nodes share the flow and all replicas are in sync. Raises GaveUp.

        Java's workers show no current state: after a fault it takes records to see that they copy.
        """
        if isinstance(self.group, NodeGroup):
            self.group.wait_shared()
        for cluster in self.clusters:
            cluster.wait_in_sync(SETTLED)

    def leads(self, name: str) -> bool:
        """Return whether this node leads the flow. Java's workers do not show it."""
        view = self.group.view() if isinstance(self.group, NodeGroup) else None
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
                    version=topology.version,
                    brokers=topology.brokers,
                    listeners=(listener_behind(*cables),),
                    properties=NO_CREATION_BY_CLIENTS,
                )
            )
            for cable, broker in zip(cables, cluster.brokers, strict=True):
                cable.plug(broker.address(CUT_OFF))
            sides.append((cluster, tuple(cables)))
        (source, source_cables), (target, target_cables) = sides
        properties = {
            "mm2.lanes": str(topology.lanes),
            "tasks.max": str(topology.tasks_max),
        } | topology.mode.properties()
        if topology.source_tasks_only:
            properties |= {"emit.heartbeats.enabled": "false", "emit.checkpoints.enabled": "false"}
        zookeeper = None
        if topology.election == "zookeeper":
            zookeeper = ends.enter_context(ZooKeeperServer())
            properties |= {"mm2.election": "zookeeper", "mm2.zookeeper.connect": zookeeper.address}
        names = NAMES[: topology.nodes]
        to_source = {"A.bootstrap.servers": ",".join(cable.address for cable in source_cables)}
        to_target = {"B.bootstrap.servers": ",".join(cable.address for cable in target_cables)}
        properties_of = {WIRED: to_source | to_target}
        source.create_topic("t-first", PARTITIONS)
        clocks = {name: SkewedClock(name) for name in names} if topology.clocks else {}
        group: NodeGroup | JavaGroup
        if topology.mode.java:
            # Java's tasks connect to the source with the leader's addresses, whichever worker runs them.
            group = JavaGroup(source, target, names, properties=properties | to_source, properties_of=properties_of)
        else:
            group = NodeGroup(
                source,
                target,
                names,
                properties=properties,
                properties_of=properties_of,
                env_of={name: clock.env for name, clock in clocks.items()},
            )
        ends.enter_context(group)
        group.wait_shared(timeout=STARTED)
        yield Stage(
            topology=topology,
            group=group,
            source_cables=source_cables,
            target_cables=target_cables,
            zookeeper=zookeeper,
            clocks=clocks,
        )


def coordinator_group() -> str:
    """Return the group that the nodes of the flow are members of, in Java too."""
    return f"{FLOW.partition('->')[0]}-mm2"


def transactional_id(source_task: int) -> str:
    """Return the transactional id of a source task with exactly-once, in Java too (Worker.taskTransactionalId)."""
    return f"{coordinator_group()}-MirrorSourceConnector-{source_task}"
