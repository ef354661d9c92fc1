"""A node from start to stop: output, signals, and restarts without lost or repeated records."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.shared_node import COPIED
from tests.lab.cluster import KafkaCluster
from tests.lab.history import read_topic
from tests.lab.node import Node
from tests.lab.records import every_shape, write
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

EXITED = 10.0  # seconds until orphaned processes exit, far below the lease time of 15 s
LEFTOVERS = {  # settings of another Spark on the machine; a node that used any of them would not start
    "SPARK_HOME": "/nonexistent/spark-2.4",
    "SPARK_CONF_DIR": "/nonexistent/conf",
    "PYSPARK_SUBMIT_ARGS": "--master spark://nowhere:7077",
    "PYSPARK_GATEWAY_PORT": "1",
    "SPARK_REMOTE": "sc://nowhere",
}


def test_node_with_one_task_from_start_to_stop(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str], rng: random.Random, tmp_path: Path
) -> None:
    a, b = unique("A"), unique("B")
    topics = {
        cluster_a.create_topic(unique(f"{a}-plain"), 2): "none",
        cluster_a.create_topic(unique(f"{a}-lz4")): "lz4",
    }
    left = cluster_a.create_topic(unique(f"{a}-left"))  # not selected any more after the restart
    write(cluster_a.bootstrap, left, every_shape(rng, 10))
    properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*") | {
        "mm2.lanes": "1",
        "heartbeats.replication.enabled": "false",
        f"{b}.offset.flush.interval.ms": "3600000",  # offsets are only stored by the drain
    }

    def write_more() -> None:
        for topic, codec in topics.items():
            write(cluster_a.bootstrap, topic, every_shape(rng, 300, partitions=len(offsets[topic])), codec=codec)

    def copied_exactly() -> bool:
        remote = {topic: (cluster_b.bootstrap, f"{a}.{topic}") for topic in topics}
        verdicts = [wait_until_copied((cluster_a.bootstrap, topic), remote[topic], COPIED) for topic in topics]
        return all(verdict.exact for verdict in verdicts)

    offsets = {topic: read_topic(cluster_a.bootstrap, topic) for topic in topics}
    with Node(properties, env=LEFTOVERS | {"TMPDIR": str(tmp_path)}) as node:
        write_more()
        node.wait_running()
        assert copied_exactly()
        assert [lane for lane in node.members("worker") if lane.ppid() in pids(node, "worker")], "Spark runs the lane"
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith("mm2-node-")]
        write_more()
        assert copied_exactly()

        assert node.stop() == 0
        wait_until(lambda: not node.family(), EXITED, "no process of the node is left")
        assert list(tmp_path.iterdir()) == []
        ends = {topic: read_topic(cluster_a.bootstrap, topic) for topic in topics}
        assert {key: value for key, value in stored(cluster_b, a).items() if left not in key} == {
            f'["MirrorSourceConnector",{{"cluster":"{a}","partition":{number},"topic":"{topic}"}}]': (
                f'{{"offset":{records[-1].offset}}}'
            )
            for topic, partitions in ends.items()
            for number, records in partitions.items()
        }

        write_more()  # while no node runs
        node.rewrite(properties | {f"{a}->{b}.topics": f"{a}-(plain|lz4).*"})
        node.start()
        write_more()
        node.wait_running()
        assert copied_exactly()
        check_banner(node, a, b)
        assert node.flow(f"{a}->{b}")["left_selection"] == [left], "its stored offset tells that it was copied"
        assert node.metric("mm2_flow_topics_left_selection", source=a, target=b) == 1
        assert f"1 topic left the selection, and will not be copied any more although it exists on {a}: {left}" in (
            node.process.output()
        )

        node.process.signal(signal.SIGINT)
        node.process.wait_until_output("SIGINT received: draining", EXITED, "the node reports that it drains")
        node.process.signal(signal.SIGTERM)
        assert node.process.wait(5, "a second signal stops the node immediately") == 130
        wait_until(lambda: not node.family(), EXITED, "no process of the node is left")


def stored(cluster: KafkaCluster, source_alias: str) -> dict[str, str]:
    """Return the newest value of every source partition in the offsets topic."""
    read = read_topic(cluster.bootstrap, f"mm2-offsets.{source_alias}.internal")
    newest = {record.content[0]: record.content[1] for records in read.values() for record in records}
    found = {(key or b"").decode(): (value or b"").decode() for key, value in newest.items()}
    return {key: value for key, value in found.items() if key.startswith('["MirrorSourceConnector"')}


def pids(node: Node, role: str) -> set[int]:
    return {one.pid for one in node.members(role)}


def check_banner(node: Node, a: str, b: str) -> None:
    """Check the banner: flows with the discovered topics, and addresses."""
    # a banner that was printed before Spark was up has another text: the node waits 30 s
    flow = f"{a}->{b}  2 topics, 3 partitions: "
    node.process.wait_until_output(flow, 40, "Spark is up before the banner of this start is printed")
    banner = [line for line in node.process.output().splitlines() if " mm2.node: " in line]
    assert [line for line in banner if flow in line]
    assert [line for line in banner if f"{b}->{a}  heartbeats only" in line]
    assert [line for line in banner if node.url in line and "/health" in line]
    assert [line for line in banner if "Spark UI  http://127.0.0.1:" in line]


# three starts of Spark; in the gate: tests/faults/test_each_kind.py kills and stops one of two nodes
@pytest.mark.long
def test_second_node_takes_over_and_returns_the_flow(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str], rng: random.Random
) -> None:
    a, b = unique("A"), unique("B")
    topic = cluster_a.create_topic(unique(f"{a}-orders"), 2)
    properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*") | {
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        f"{b}.session.timeout.ms": "6000",  # the broker's minimum; a killed node is replaced after this time
        f"{b}.heartbeat.interval.ms": "1000",
    }

    def write_and_wait(*, repeats_allowed: bool = False) -> None:
        write(cluster_a.bootstrap, topic, every_shape(rng, 500, partitions=2), codec="lz4")
        remote = (cluster_b.bootstrap, f"{a}.{topic}")
        wait_until_copied((cluster_a.bootstrap, topic), remote, COPIED, repeats_allowed=repeats_allowed)

    with Node(properties, name="first") as first, ExitStack() as later:
        leader = str(wait_until(lambda: first.flow(f"{a}->{b}").get("leader"), 60, "the first node leads"))
        second = later.enter_context(Node(properties, name="second"))
        wait_until(lambda: second.flow(f"{a}->{b}").get("leader") == leader, 60, "the second node follows")
        first.wait_running()
        second.wait_running()
        write_and_wait()

        first.kill()
        wait_until(lambda: not first.family(), EXITED, "no process outlives the killed node")
        wait_until(lambda: second.flow(f"{a}->{b}").get("leader") not in (leader, None), 60, "the second node leads")
        second.wait_running()
        write_and_wait(repeats_allowed=True)

        first.start()
        wait_until(lambda: first.flow(f"{a}->{b}").get("leader") not in (leader, None), 60, "the first node follows")
        before = read_topic(cluster_b.bootstrap, f"{a}.{topic}")
        assert second.stop() == 0
        first.wait_running()
        write(cluster_a.bootstrap, topic, every_shape(rng, 500, partitions=2), codec="lz4")
        wait_until_copied(
            (cluster_a.bootstrap, topic), (cluster_b.bootstrap, f"{a}.{topic}"), COPIED, repeats_allowed=True
        )
        after = read_topic(cluster_b.bootstrap, f"{a}.{topic}")
        added = sum(len(after[number]) - len(before[number]) for number in (0, 1))
        assert added == 500, "a node that stops cleanly repeats no records"
