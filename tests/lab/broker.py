"""One real Kafka broker in KRaft mode, broker and controller in one process."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import javaproperties
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.lab import class_data, jars, jvm, scratch
from tests.lab.listeners import CONTROLLER, INTERNAL, Listener
from tests.lab.ports import HOST, port_answers, release_port, reserve_port
from tests.lab.processes import GRACE, LabProcess
from tests.lab.storage import format_storage
from tests.lab.waiting import GaveUp, wait_until

READY = 60.0  # seconds: a start takes two on an idle machine, ten when two cores carry a whole test run
HEAP = "-Xmx256m"  # a broker under test load lives in 150 MB

# Smaller and faster than the defaults; tests override the settings that they test.
DEFAULTS = {
    "num.network.threads": "1",  # for each listener
    "num.io.threads": "2",
    "group.coordinator.threads": "1",  # 4 by default, each with its executors
    "share.coordinator.threads": "1",
    "background.threads": "2",  # 10 by default
    "metadata.max.idle.interval.ms": "15000",  # an idle controller writes and flushes a record every 500 ms by default
    "log.index.size.max.bytes": "65536",  # the default of 10 MB is allocated for each partition
    "log.cleaner.dedupe.buffer.size": "4194304",  # 128 MB by default: half of this heap
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "broker.heartbeat.interval.ms": "1000",  # three within a session; each is a request and work of the controller
    "broker.session.timeout.ms": "3000",  # a killed broker loses its leaderships after this, and can then restart
    "auto.create.topics.enable": "true",  # Kafka's default: a client that creates topics by asking is to be seen
}
_STARTING = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._PARTIAL)  # _PARTIAL: no broker is listed yet


class Broker:
    """A broker with a number, ports and a directory that stay the same across restarts.

    ``quorum`` names all controllers of the cluster (``1@host:port,2@…``). Start with `start`, then `wait_ready`.
    """

    def __init__(
        self,
        *,
        name: str,
        version: str,
        node_id: int,
        listeners: tuple[Listener, ...],
        properties: Mapping[str, str],
        ports: Mapping[str, int],
        directory: Path,
        java_options: tuple[str, ...],
    ) -> None:
        self.name = name
        self.version = version
        self.node_id = node_id
        self.directory = directory
        self._ports = dict(ports)
        self._listeners = listeners
        self._properties = dict(properties)
        self._java_options = java_options
        self._process: LabProcess | None = None

    @staticmethod
    def reserve_ports(listeners: tuple[Listener, ...], wish: int | None = None) -> dict[str, int]:
        """A free port for each listener, the controller's and the internal one's (``wish``, if free) among them."""
        secured = {one.label: reserve_port() for one in listeners}
        return {CONTROLLER: reserve_port(), INTERNAL: reserve_port(wish), **secured}

    def address(self, listener: str = INTERNAL) -> str:
        host = next((one.host for one in self._listeners if one.label == listener), HOST)
        return f"{host}:{self._ports[listener]}"

    @property
    def process(self) -> LabProcess:
        """The running or last process. Raises RuntimeError before the first start."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._process

    def format(self, cluster_id: str) -> None:
        format_storage(self.version, self._data, cluster_id=cluster_id, node_id=self.node_id)

    def start(self) -> None:
        """Start it with its existing data, without waiting."""
        settings = self.directory / "server.properties"
        settings.write_text(javaproperties.dumps(self._server_properties(), timestamp=False))
        options = (HEAP, *jvm.QUICK_START, *jvm.log_options("warn"), *self._java_options)
        class_path = jars.class_path(self.version)
        self._process = LabProcess(
            self.name,
            (jvm.java(), *options, "-cp", class_path, "kafka.Kafka", str(settings)),
            self.directory / "broker.log",
            cwd=self.directory,
        )

    def wait_ready(self, peers: Collection[int] = ()) -> None:
        """Wait until it reports itself and the brokers ``peers`` as live. Raises GaveUp with the end of its log."""
        wait_until(self._answers, READY, f"{self.name} listens on {self.address()}")
        wanted = {self.node_id, *peers}
        wait_until(lambda: self._live_brokers() >= wanted, READY, f"{self.name} sees brokers {sorted(wanted)} live")

    def stop(self, timeout: float = GRACE) -> None:
        """A controlled shutdown: leaderships move first where other brokers can take them."""
        self.process.stop(timeout)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def restart(self) -> None:
        """Start again on the same ports and data, and wait until it is ready; stops it first if it runs."""
        if self.process.running:
            self.stop()
        self.start()
        self.wait_ready()

    def upgrade(self, version: str) -> None:
        """Stop it, and start this version on the same ports and data, as in a rolling upgrade."""
        self.stop()
        self.version, self._java_options = version, class_data.options(version)
        self.start()
        self.wait_ready()

    def close(self) -> None:
        """Stop it permanently and immediately, and release its ports."""
        if self._process is not None:
            self._process.kill_group()
        for port in self._ports.values():
            release_port(port)
        self._ports.clear()

    @property
    def _data(self) -> Path:
        return self.directory / scratch.DATA

    def _answers(self) -> bool:
        if not self.process.running:
            raise GaveUp(f"{self.name} ended while starting\n{self.process.report()}")
        return port_answers(self._ports[INTERNAL])

    def _live_brokers(self) -> set[int]:
        """Return the live brokers as reported by this one, through a new client that knows no other broker."""
        self._answers()
        try:
            client = AdminClient({"bootstrap.servers": self.address(), "log_level": 0})
            return set(client.list_topics(timeout=2).brokers)
        except KafkaException as problem:
            if problem.args[0].code() in _STARTING:
                return set()
            raise

    def _server_properties(self) -> dict[str, str]:
        labels = {CONTROLLER: "PLAINTEXT", INTERNAL: "PLAINTEXT"}
        labels |= {one.label: one.protocol.value for one in self._listeners}
        addresses = {label: f"{label}://{self.address(label)}" for label in labels}
        told = addresses | {
            one.label: f"{one.label}://{one.advertised[self.node_id - 1]}" for one in self._listeners if one.advertised
        }
        return {
            **DEFAULTS,
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "log.dirs": str(self._data),
            "listeners": ",".join(addresses.values()),
            "advertised.listeners": ",".join(text for label, text in told.items() if label != CONTROLLER),
            "listener.security.protocol.map": ",".join(f"{label}:{kind}" for label, kind in labels.items()),
            "inter.broker.listener.name": INTERNAL,
            "controller.listener.names": CONTROLLER,
            **self._properties,
        }
