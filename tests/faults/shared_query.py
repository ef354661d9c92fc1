"""Nodes that share a flow whose topics have a query, and faults of the processes that copy them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import psutil

from tests.faults.mode import Mode
from tests.faults.node_group import COPIED, NodeGroup
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.history import end_offset_sum
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.sql_lanes import QUERY, feeders, queried, runners
from tests.lab.verify import Verdict, wait_until_copied
from tests.lab.waiting import wait_until

PARTITIONS = 4
PER_SECOND = 1_000
RESUMES = 90.0  # seconds until records arrive again, or a killed process runs: a new JVM takes 15 on busy cores
SHORT_SESSION = {"B.session.timeout.ms": "6000", "B.heartbeat.interval.ms": "1000"}  # the broker's minimum

ROLES: dict[str, Callable[[Node], list[psutil.Process]]] = {
    "runner": runners,
    "feeder": feeders,
    "JVM": lambda node: node.members("jvm"),
    "node": lambda node: [one for role in ("node", "engine", "jvm", "worker") for one in node.members(role)],
}
"""Processes by the role that a fault hits. ``node`` is all of them, as when a machine fails."""


@dataclass(frozen=True, slots=True)
class SharedQueryFlow:
    """Nodes, by default two, that copy topics ``t-…`` through `QUERY` with two source tasks."""

    nodes: NodeGroup
    mode: Mode

    @classmethod
    @contextmanager
    def running(
        cls, source: KafkaCluster, target: KafkaCluster, mode: Mode, names: tuple[str, ...] = ("one", "two")
    ) -> Iterator[SharedQueryFlow]:
        """Start the nodes."""
        properties = {
            **mode.properties(),
            **SHORT_SESSION,
            "A->B.topics": f"t-{mode.name}-.*",
            "tasks.max": "2",
            "mm2.lanes": "1",
            "mm2.sql.numbered.topics": "t-.*",
            "mm2.sql.numbered.query": QUERY,
        }
        with NodeGroup(source, target, names, properties=properties) as nodes:
            yield cls(nodes, mode)

    def create_topic(self) -> str:
        return self.nodes.source.create_topic(unique_name(f"t-{self.mode.name}"), PARTITIONS)

    @contextmanager
    def load(self, topic: str) -> Iterator[Load]:
        """Write records while the block runs."""
        with Load(self.nodes.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
            yield load

    def wait_for_copies(self, topic: str, records: int) -> None:
        """Wait until that many more records are on the target."""
        bootstrap, remote = self.nodes.target.bootstrap, f"A.{topic}"
        goal = end_offset_sum(bootstrap, remote) + records
        wait_until(lambda: end_offset_sum(bootstrap, remote) >= goal, RESUMES, f"{records} more records of {topic}")

    def running_processes(self, node: Node, role: str) -> list[psutil.Process]:
        """Return the processes of a role, once there are any."""
        return wait_until(lambda: ROLES[role](node), RESUMES, f"{node.name} has a {role}")

    def kill(self, rng: random.Random, topic: str, role: str) -> None:
        """Send SIGKILL to the processes of a role on one node. A killed node starts again after the takeover."""
        victim = rng.choice(list(self.nodes.by_name.values()))
        for process in self.running_processes(victim, role):
            with suppress(psutil.NoSuchProcess):  # it ended with the one before it
                process.kill()
        if role == "node":
            victim.kill()
            (other,) = self.nodes.by_name.keys() - {victim.name}
            try:
                self.nodes.wait_shared(other)
                self.wait_for_copies(topic, PER_SECOND)
            finally:
                victim.start()  # the next test shares the nodes

    def verify(self, topic: str) -> Verdict:
        """Check that the remote topic has exactly what the query makes of the source. Raises GaveUp."""
        self.nodes.wait_shared()  # `wait_for_copies` does not tell which of the two nodes copies
        found = wait_until_copied(
            (self.nodes.source.bootstrap, topic),
            (self.nodes.target.bootstrap, f"A.{topic}"),
            COPIED,
            repeats_allowed=self.mode.repeats_allowed,
            transform=partial(queried, topic),
        )
        print(f"{topic}: {found.records} records, {len(found.duplicated)} repeated")
        return found
