"""Several nodes that share flow A->B: which node leads, and which node copies which partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tests.lab.cluster import KafkaCluster
from tests.lab.decisions import newest_lists
from tests.lab.node import Node
from tests.lab.settings import one_flow
from tests.lab.verify import Verdict, wait_until_copied
from tests.lab.waiting import GaveUp, wait_until

FLOW = "A->B"
TASKS_MAX = 4  # two for each of two nodes: one that moves leaves another that must not stop
PARTITIONS = 8  # of every topic
PER_SECOND = 500  # records: each partition gets one every 16 ms, so a pause of half a second is visible
SESSION = 10.0  # seconds: session.timeout.ms by default
SHARED = 240.0  # seconds until all nodes have work: each starts its own Spark, on shared cores
COPIED = 90.0  # seconds, after a fault under load
NOISE = 4.0  # seconds that two busy cores can add to any limit: a starting node uses both for that long

PROPERTIES = {
    "tasks.max": str(TASKS_MAX),
    "mm2.lanes": "2",
    "heartbeats.replication.enabled": "false",
    "B->A.emit.heartbeats.enabled": "false",
    "B.offset.flush.interval.ms": "1000",
}
STORED_EVERY = 1.0  # seconds: offset.flush.interval.ms above
CONFIGS = "mm2-configs.A.internal"
STATUSES = "mm2-status.A.internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The flow as its leader shows it."""

    leader: str
    flow: Mapping[str, Any]

    @property
    def nodes(self) -> dict[str, str]:
        """Node of each running task."""
        return {task["id"]: task["node"] for task in self.flow["tasks"] if task["state"] == "RUNNING"}

    @property
    def sources(self) -> dict[str, str]:
        """Node of each running source task."""
        return {task: node for task, node in self.nodes.items() if task.startswith("MirrorSource")}


class NodeGroup:
    """Nodes by name (their mm2.node.id). A context manager that stops them at the end; tests start them."""

    def __init__(
        self,
        source: KafkaCluster,
        target: KafkaCluster,
        names: tuple[str, ...] = ("one", "two"),
        *,
        properties: Mapping[str, str] | None = None,
        properties_of: Mapping[str, Mapping[str, str]] | None = None,
        env_of: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """``properties``: additional properties of all nodes; ``properties_of``: of single nodes, by name; ``env_of``:
        additional environment variables of single nodes."""
        self.source = source
        self.target = target
        shared = one_flow(source, target, topics="t-.*") | PROPERTIES | dict(properties or {})
        self._tasks_max = int(shared["tasks.max"])
        self.by_name = {
            name: Node(
                shared | {"mm2.node.id": name} | dict((properties_of or {}).get(name, {})),
                name=name,
                env=(env_of or {}).get(name),
            )
            for name in names
        }
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        for node in self.by_name.values():
            self._ends.enter_context(node)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def __getitem__(self, name: str) -> Node:
        return self.by_name[name]

    def view(self) -> View | None:
        """Return the flow as the leader shows it, or None if no reachable node leads."""
        for name, flow in self._flows():
            if flow.get("leader") == name and flow["state"] not in ("DRAINING", "STOPPED"):
                return View(leader=name, flow=flow)
        return None

    def wait_shared(self, *names: str, timeout: float = SHARED) -> View:
        """Wait until exactly these nodes (default: all) copy, every task runs and each node is healthy."""
        wanted = set(names or self.by_name)

        def shared() -> View | None:
            view = self.view()
            if view is None or view.flow["state"] != "RUNNING" or len(view.sources) < self._tasks_max:
                return None
            done = set(view.sources.values()) == wanted and len(view.nodes) == len(view.flow["tasks"])
            return view if done and all(self.by_name[name].healthy for name in wanted) else None

        try:
            found = wait_until(shared, timeout, f"{', '.join(sorted(wanted))} share the flow")
        except GaveUp as problem:
            raise GaveUp(f"{problem}\n" + "\n".join(f"{name}: {flow}" for name, flow in self._flows())) from None
        assert found is not None
        return found

    def partitions_of(self, topic: str, node: str) -> set[int]:
        """Return the partitions of ``topic`` that ``node`` copies."""
        lists = newest_lists(self.target, CONFIGS)
        source_tasks = {
            int(task.rpartition("-")[2]) for task, owner in self.wait_shared().sources.items() if owner == node
        }
        return {partition for source_task in source_tasks for partition in lists[source_task].get(topic, ())}

    def roles(self) -> tuple[Node, Node]:
        """Return the leader and a follower, once they share the flow."""
        leader = self.wait_shared().leader
        return self.by_name[leader], next(node for name, node in self.by_name.items() if name != leader)

    def verify(self, topic: str, *, repeats_allowed: bool = False) -> Verdict:
        """Check that ``topic`` is copied without loss, change or reordering.

        Raises GaveUp with the location of both saved histories.
        """
        remote = (self.target.bootstrap, f"A.{topic}")
        found = wait_until_copied((self.source.bootstrap, topic), remote, COPIED, repeats_allowed=repeats_allowed)
        print(f"{topic}: {found.records} records, {len(found.duplicated)} repeated")
        return found

    def _flows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, node in self.by_name.items():
            flow = node.flow(FLOW)
            if flow:
                yield name, flow
