"""Real Kafka clusters of one or three brokers for tests, started in seconds."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import cached_property
from typing import Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    NewPartitions,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from mm2.core.settings.sasl import SaslMechanism
from tests.lab import class_data, scratch
from tests.lab.broker import READY, Broker
from tests.lab.freezing import thaw
from tests.lab.jars import KAFKA_4
from tests.lab.listeners import CONTROLLER, INTERNAL, Authority, Listener
from tests.lab.server import Server
from tests.lab.storage import new_id
from tests.lab.waiting import wait_until

ADMIN_TIMEOUT = 30  # seconds for an administrative request of the lab itself
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SCRAM_ITERATIONS = 4096  # Kafka's minimum: these passwords protect nothing

SCRAM = {
    SaslMechanism.SCRAM_SHA_256: ScramMechanism.SCRAM_SHA_256,
    SaslMechanism.SCRAM_SHA_512: ScramMechanism.SCRAM_SHA_512,
}


class KafkaCluster(Server):
    """A cluster of real brokers; a context manager that stops them.

    ``listeners`` are added to the internal plain one, ``users`` (name to password) apply to all of their mechanisms.
    ``properties`` apply to every broker, ``properties_of`` to the broker of that number (1, 2, 3).
    ``first_port`` is a wish for the internal listener of broker 1; ``java_options`` replace those that make the start
    quick.
    """

    _broker_type = Broker

    def __init__(
        self,
        name: str = "kafka",
        *,
        version: str = KAFKA_4,
        brokers: int = 1,
        listeners: tuple[Listener, ...] = (),
        users: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        properties_of: Mapping[int, Mapping[str, str]] | None = None,
        first_port: int | None = None,
        java_options: tuple[str, ...] | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.authority = Authority()
        self._listeners = listeners
        self._users = dict(users or {})
        self._java_options = class_data.options(version) if java_options is None else java_options
        wishes = {1: first_port}
        ports = {number: Broker.reserve_ports(listeners, wishes.get(number)) for number in range(1, brokers + 1)}
        shared = {
            "controller.quorum.voters": ",".join(f"{id_}@127.0.0.1:{own[CONTROLLER]}" for id_, own in ports.items()),
            **_replication(brokers),
            **(properties or {}),
        }
        self.brokers = tuple(
            self._broker(number, own, {**shared, **(properties_of or {}).get(number, {})})
            for number, own in ports.items()
        )

    def _broker(self, number: int, ports: Mapping[str, int], properties: Mapping[str, str]) -> Broker:
        name = f"{self.name}-{number}"
        directory = scratch.directory(name)
        secured: dict[str, str] = {}
        for listener in self._listeners:
            secured |= listener.properties(self._users, self.authority.write_server_pems(directory))
        return self._broker_type(
            name=name,
            version=self.version,
            node_id=number,
            listeners=self._listeners,
            properties={**secured, **properties},
            ports=ports,
            directory=directory,
            java_options=self._java_options,
        )

    def start(self) -> Self:
        """Format and start all brokers, and wait until all are live. Raises GaveUp with the log of the failing one."""
        cluster_id = new_id()
        for broker in self.brokers:
            broker.format(cluster_id)
            broker.start()
        everyone = {broker.node_id for broker in self.brokers}
        for broker in self.brokers:
            broker.wait_ready(everyone)
        self._create_scram_users()
        return self

    def close(self) -> None:
        """Kill all brokers immediately; their data is not needed any more."""
        for broker in self.brokers:
            broker.close()

    @property
    def bootstrap(self) -> str:
        """bootstrap.servers of the internal plain listener."""
        return self.bootstrap_of(INTERNAL)

    def bootstrap_of(self, listener: str) -> str:
        """bootstrap.servers of a listener by its label, such as ``SASL_SSL``."""
        return ",".join(broker.address(listener) for broker in self.brokers)

    def broker(self, number: int) -> Broker:
        """Return the broker with this node ID."""
        return self.brokers[number - 1]

    @cached_property
    def admin(self) -> AdminClient:
        """An admin client on the internal listener, kept for the cluster's lifetime because futures need it."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create_topic(
        self, name: str, partitions: int = 1, *, copies: int | None = None, config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic, by default with as many copies as there are brokers (at most three), and return its name.

        The controller answers before brokers know the topic, so this waits until a broker does."""
        topic = NewTopic(name, partitions, copies or min(len(self.brokers), 3), config=dict(config or {}))
        try:
            self.admin.create_topics([topic])[name].result(ADMIN_TIMEOUT)
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError._DESTROY_BROKER:
                raise
            # the client has replaced the broker it knew by its address; what became of the request is seen below
            with contextlib.suppress(KafkaException):
                self.admin.create_topics([topic])[name].result(ADMIN_TIMEOUT)
        wait_until(lambda: self.partition_count(name) == partitions, ADMIN_TIMEOUT, f"{self.name} knows topic {name}")
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic. The controller answers before brokers do it, so this waits until a broker has done so:
        otherwise records for a new topic of that name could end up in the old one."""
        self.admin.delete_topics([name])[name].result(ADMIN_TIMEOUT)
        wait_until(  # all topics are listed, since asking for one by name can create it
            lambda: name not in self.admin.list_topics(timeout=ADMIN_TIMEOUT).topics,
            ADMIN_TIMEOUT,
            f"{self.name} has deleted topic {name}",
        )

    def partition_count(self, topic: str) -> int:
        """The number of partitions of a topic as a broker knows it now; 0 while it does not.

        All topics are listed: a broker creates a missing topic that a client asks for by name.
        """
        known = self.admin.list_topics(timeout=ADMIN_TIMEOUT).topics.get(topic)
        return 0 if known is None or known.error is not None else len(known.partitions)

    def grow_topic(self, name: str, partitions: int) -> None:
        """Increase the partition count to ``partitions``, and wait until a broker lists them as in `create_topic`.

        Before that, a producer rejects records for the new partitions.
        """
        for future in self.admin.create_partitions([NewPartitions(name, partitions)]).values():
            future.result(ADMIN_TIMEOUT)
        wait_until(
            lambda: len(self.admin.list_topics(timeout=ADMIN_TIMEOUT).topics[name].partitions) == partitions,
            ADMIN_TIMEOUT,
            f"{self.name} lists {partitions} partitions of {name}",
        )

    def leader(self, topic: str, partition: int = 0) -> Broker:
        """The broker that leads a partition now. Raises GaveUp if there is no such partition or leader."""

        def found() -> int | None:
            known = self.admin.list_topics(topic, timeout=ADMIN_TIMEOUT).topics[topic].partitions
            return known[partition].leader if partition in known and known[partition].leader > 0 else None

        return self.broker(wait_until(found, ADMIN_TIMEOUT, f"{topic}-{partition} has a leader") or 0)

    def coordinator(self, group: str) -> Broker:
        """The broker that coordinates a group now: the leader of its partition of __consumer_offsets
        (GroupCoordinator.partitionFor)."""
        return self._coordinator(OFFSETS_TOPIC, group)

    def transaction_coordinator(self, transactional_id: str) -> Broker:
        """The broker that coordinates the transactions of a producer now (TransactionStateManager.partitionFor)."""
        return self._coordinator(TRANSACTIONS_TOPIC, transactional_id)

    def _coordinator(self, topic: str, key: str) -> Broker:
        number = 0
        for character in key:  # String.hashCode
            number = (31 * number + ord(character)) & 0xFFFF_FFFF
        return self.leader(topic, (number & 0x7FFF_FFFF) % self.partition_count(topic))

    def wait_in_sync(self, timeout: float) -> None:
        """Wait until all replicas of all topics are in sync, so that the next broker can stop. Raises GaveUp."""

        def behind() -> list[str]:
            known = self.admin.list_topics(timeout=ADMIN_TIMEOUT).topics
            return [
                f"{name}-{number}"
                for name, topic in known.items()
                for number, partition in topic.partitions.items()
                if len(partition.isrs) < len(partition.replicas)
            ]

        wait_until(lambda: not behind(), timeout, f"all replicas of {self.name} are in sync")

    def heal(self) -> Self:
        """Let every broker run that was frozen, killed or stopped, and wait until all are live and in sync.

        For a cluster that several tests share. Raises GaveUp.
        """
        for broker in self.brokers:
            if broker.process.running:
                thaw(broker.process)
            else:
                broker.start()
        everyone = {broker.node_id for broker in self.brokers}
        for broker in self.brokers:
            broker.wait_ready(everyone)
        if len(self.brokers) > 1:
            self.wait_in_sync(READY)
        return self

    def _create_scram_users(self) -> None:
        for mechanism in {one for listener in self._listeners for one in listener.mechanisms if one in SCRAM}:
            kind = ScramCredentialInfo(SCRAM[mechanism], SCRAM_ITERATIONS)
            changes: list[UserScramCredentialAlteration] = [
                UserScramCredentialUpsertion(user, kind, password.encode()) for user, password in self._users.items()
            ]  # a request can name a user only once
            for future in self.admin.alter_user_scram_credentials(changes).values():
                future.result(ADMIN_TIMEOUT)


def _replication(brokers: int) -> dict[str, str]:
    """Internal topics survive the loss of one broker of three."""
    copies, in_sync = str(min(brokers, 3)), str(min(brokers, 2))
    return {
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
    }
