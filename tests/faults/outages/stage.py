"""Two nodes that copy two topics, with everything that an outage can strike."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.faults.node_group import COPIED, NodeGroup
from tests.lab.cable import CUT_OFF, Cable, listener_behind
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import Outcome, run
from tests.lab.history import read_topic
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.spark_cluster import SparkCluster
from tests.lab.waiting import wait_until

ORDERS, CLICKS = "t-orders", "t-clicks"  # written to, and idle
PARTITIONS = 2
TASKS = 4  # one for each partition
FEW = 20  # records for each burst
TOKEN = "a-token-of-operators-of-the-lab"


class Clock:
    """Seconds since it was created."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """``cable``: between the nodes and the source. ``spark``: the cluster that runs the lanes; None: each node does."""

    nodes: NodeGroup
    cable: Cable
    spark: SparkCluster | None = None

    @property
    def source(self) -> KafkaCluster:
        return self.nodes.source

    @property
    def target(self) -> KafkaCluster:
        return self.nodes.target

    def running(self) -> list[Node]:
        """Return the nodes whose processes run."""
        return [node for node in self.nodes.by_name.values() if node.process.running]

    def wait_shared(self) -> None:
        """Wait until both nodes copy, and everything that was written is copied. Raises GaveUp."""
        self.nodes.wait_shared()
        wait_until(lambda: max(self.missing().values()) <= 0, COPIED, "everything is copied")

    def write(self, topic: str, records: int = FEW) -> None:
        """Write this number of records to a topic of the source."""
        write(self.source.bootstrap, topic, plain(records, partitions=PARTITIONS))

    def command(self, *arguments: str, node: str = "one") -> Outcome:
        """Run ``mm2 COMMAND FILE …`` with the file of a node; it must succeed."""
        name, *rest = arguments
        found = run("mm2", name, str(self.nodes[node].file), "--flow", "A->B", *rest)
        assert found.code == 0, found
        return found

    def missing(self) -> dict[str, int]:
        """Return how many records of each topic are on the source and not on the target."""
        return {
            topic: _records(self.source.bootstrap, topic) - _records(self.target.bootstrap, f"A.{topic}")
            for topic in (ORDERS, CLICKS)
        }


@contextmanager
def outage_stage(*, on_spark_cluster: bool = False) -> Iterator[Stage]:
    """Start both clusters and nodes. ``on_spark_cluster``: their lanes run on a standalone cluster with one worker for
    each node."""
    with ExitStack() as ends:
        cable = ends.enter_context(Cable("nodes to source"))
        source = ends.enter_context(KafkaCluster("source", listeners=(listener_behind(cable),)))
        target = ends.enter_context(KafkaCluster("target"))
        cable.plug(source.bootstrap_of(CUT_OFF))
        for topic in (ORDERS, CLICKS):
            source.create_topic(topic, PARTITIONS)
        properties = {
            "A.bootstrap.servers": cable.address,
            "mm2.lanes": "1",
            "tasks.max": str(TASKS),
            "sync.topic.configs.enabled": "false",
            "mm2.on.data.loss": "stop-partition",
            "mm2.rest.admin": "true",
            "mm2.rest.admin.token": TOKEN,
        }
        spark = ends.enter_context(SparkCluster(workers=2)) if on_spark_cluster else None
        if spark is not None:
            properties |= spark.application
        nodes = ends.enter_context(NodeGroup(source, target, properties=properties))
        yield Stage(nodes=nodes, cable=cable, spark=spark)


def _records(bootstrap: str, topic: str) -> int:
    """Return the number of records of a topic. Offsets are no measure: fencing leaves markers on the target."""
    return sum(map(len, read_topic(bootstrap, topic).values()))
