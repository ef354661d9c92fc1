"""A broker in ZooKeeper mode, which Kafka 3.9 is the last to have: it can behave as a release before KRaft.

With an old ``inter.broker.protocol.version`` it rejects what brokers of that release did not know. In KRaft that begins
with 3.0.
"""

from __future__ import annotations

from tests.lab.broker import Broker
from tests.lab.cluster import KafkaCluster
from tests.lab.jars import KAFKA_3
from tests.lab.listeners import INTERNAL
from tests.lab.zookeeper import ZooKeeperServer

_ONLY_KRAFT = frozenset({"process.roles", "node.id", "controller.listener.names", "controller.quorum.voters"})


class ZooKeeperModeBroker(Broker):
    """As `Broker`, without a controller of its own."""

    def format(self, cluster_id: str) -> None:
        """Nothing: the broker formats its directory itself."""

    def _server_properties(self) -> dict[str, str]:
        properties = super()._server_properties()
        return {name: value for name, value in properties.items() if name not in _ONLY_KRAFT} | {
            "broker.id": str(self.node_id),
            "listeners": f"{INTERNAL}://{self.address()}",
            "advertised.listeners": f"{INTERNAL}://{self.address()}",
            "listener.security.protocol.map": f"{INTERNAL}:PLAINTEXT",
        }


class ZooKeeperModeCluster(KafkaCluster):
    """One broker of Kafka 3.9 with the protocol of release ``protocol``; ``zookeeper`` must run. The broker creates the
    path ``chroot`` there."""

    _broker_type = ZooKeeperModeBroker

    def __init__(self, name: str, zookeeper: ZooKeeperServer, *, protocol: str, chroot: str = "") -> None:
        properties = {"zookeeper.connect": zookeeper.address + chroot, "inter.broker.protocol.version": protocol}
        super().__init__(name, version=KAFKA_3, properties=properties)
