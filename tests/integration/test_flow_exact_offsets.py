"""Exact offsets and topics made anew through a whole node: its restarts, its lanes' deaths, and what it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest

from mm2.core.exact_offset_records import Segment
from mm2.core.names import TopicPartition
from tests.faults.workers import lanes
from tests.integration.shared_node import COPIED, SEEN, exists
from tests.lab.cluster import KafkaCluster
from tests.lab.exact_map import judge, read_segments
from tests.lab.fixtures import unique_name
from tests.lab.history import end_offset_sum, read_topic
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow of a node of its own, which the tests restart; ``compatible``: one that keeps no exact offsets."""

    node: Node
    source: KafkaCluster
    target: KafkaCluster
    alias: str
    target_alias: str
    compatible: Flow | None = None

    @property
    def name(self) -> str:
        return f"{self.alias}->{self.target_alias}"

    @property
    def exact_topic(self) -> str:
        return f"mm2-exact-offsets.{self.alias}.internal"

    def create(self, stem: str, records: int) -> str:
        topic = self.source.create_topic(unique_name(f"{self.alias}-{stem}"))
        write(self.source.bootstrap, topic, plain(records))
        return topic

    def is_running(self, topic: str) -> bool:
        return self.node.topic(self.name, topic).get("state") == "RUNNING"

    def make_anew(self, cluster: KafkaCluster, topic: str) -> None:
        cluster.admin.delete_topics([topic])[topic].result(30)
        cluster.create_topic(topic)

    def wait_records(self, topic: str, records: int) -> None:
        """Until the remote topic has at least so many."""
        remote = f"{self.alias}.{topic}"
        wait_until(
            lambda: end_offset_sum(self.target.bootstrap, remote) >= records, COPIED, f"{remote} has {records} records"
        )

    def wait_reason(self, words: str) -> None:
        wait_until(
            lambda: any(words in reason for reason in self.node.flow(self.name)["reasons"]),
            SEEN,
            f"a reason of {self.name} says {words!r}",
        )

    def segments(self, topic: str) -> list[Segment]:
        return read_segments(self.target.bootstrap, self.exact_topic).get(TopicPartition(topic, 0), [])


@pytest.fixture(scope="module")
def flow(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> Iterator[Flow]:
    a, b, c = unique_name("A"), unique_name("B"), unique_name("C")
    properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*") | {
        "clusters": f"{a}, {b}, {c}",
        f"{c}.bootstrap.servers": cluster_a.bootstrap,
        f"{c}->{b}.enabled": "true",
        f"{c}->{b}.topics": f"{c}-.*",
        f"{c}->{b}.mm2.offset.translation": "compatible",
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "mm2.lanes": "1",
        "consumer.auto.offset.reset": "latest",
        f"{b}.offset.flush.interval.ms": "200",
    }
    with Node(properties, name="exact-offsets") as node:
        node.wait_running()
        yield Flow(node, cluster_a, cluster_b, a, b, Flow(node, cluster_a, cluster_b, c, b))


def test_topics_made_anew_while_the_node_is_down_and_while_it_runs(flow: Flow) -> None:
    """Copied from the beginning, though the flow begins new topics at their end, and whatever offset is stored."""
    source, target, node = flow.source, flow.target, flow.node
    down, running = source.create_topic(f"{flow.alias}-down"), source.create_topic(f"{flow.alias}-running")
    for topic in (down, running):
        wait_until(lambda topic=topic: flow.is_running(topic), SEEN, f"{topic} runs")  # type: ignore[misc]
        write(source.bootstrap, topic, plain(100))
        flow.wait_records(topic, 100)
    assert node.stop() == 0
    flow.make_anew(source, down)
    write(source.bootstrap, down, plain(150, first=1_000))
    node.start().wait_running()
    flow.wait_records(down, 250)
    flow.make_anew(source, running)
    write(source.bootstrap, running, plain(150, first=1_000))
    flow.wait_records(running, 250)
    for topic in (down, running):
        flow.wait_reason(f"topic {topic} was deleted and made anew on {flow.alias}: it is copied from its beginning")
        remote = read_topic(target.bootstrap, f"{flow.alias}.{topic}")[0]
        anew = read_topic(source.bootstrap, topic)[0]
        assert [one.content for one in remote[100:]] == [one.content for one in anew]
        wait_until(lambda topic=topic: flow.segments(topic)[-1].ranges[-1:] == ((0, 100, 150, 0),), SEEN, "written")  # type: ignore[misc]
        eras = [segment.era for segment in flow.segments(topic)]
        assert eras == sorted(eras)
        assert eras[-1] == eras[0] + 1


def test_a_remote_topic_made_anew(flow: Flow) -> None:
    topic = flow.create("remote", 0)
    wait_until(lambda: flow.is_running(topic), SEEN, f"{topic} runs")
    write(flow.source.bootstrap, topic, plain(100))
    flow.wait_records(topic, 100)
    remote = f"{flow.alias}.{topic}"
    flow.target.admin.delete_topics([remote])[remote].result(30)
    wait_until(lambda: exists(flow.target, remote), SEEN, "the node has made it anew")
    write(flow.source.bootstrap, topic, plain(50, first=100))
    flow.wait_records(topic, 50)
    flow.wait_reason(f"remote topic {remote} was deleted and made anew on {flow.target_alias}")


def test_a_lane_that_is_killed_leaves_a_map_that_misses_nothing(flow: Flow) -> None:
    topic = flow.create("killed", 0)
    wait_until(lambda: flow.is_running(topic), SEEN, f"{topic} runs")
    write(flow.source.bootstrap, topic, plain(3_000), records_per_batch=20)
    for goal in (3_000, 6_000):
        flow.wait_records(topic, goal - 2_500)
        for lane in lanes(flow.node):
            kill(lane)
        write(flow.source.bootstrap, topic, plain(3_000, first=goal), records_per_batch=20)
    source, remote = (flow.source.bootstrap, topic), (flow.target.bootstrap, f"{flow.alias}.{topic}")
    wait_until_copied(source, remote, COPIED, repeats_allowed=True)

    def end_is_written() -> bool:
        """The end, exactly: what a lane that died left unaccounted for has been caught up with."""
        segments = flow.segments(topic)
        return 9_000 in judge(segments, read_topic(*source)[0], read_topic(*remote)[0]).exact

    wait_until(end_is_written, SEEN, "all is written down")


def test_a_compatible_flow_knows_what_its_node_has_seen(flow: Flow) -> None:
    """Deleted, gone for a while, and made anew: the offset stored of the old topic is not taken for one of the new."""
    assert flow.compatible is not None
    flow = flow.compatible
    topic = flow.create("plain", 0)
    wait_until(lambda: flow.is_running(topic), SEEN, f"{topic} runs")
    write(flow.source.bootstrap, topic, plain(100))
    flow.wait_records(topic, 100)
    flow.source.admin.delete_topics([topic])[topic].result(30)
    wait_until(lambda: not flow.node.topic(flow.name, topic), SEEN, "the node has seen that it is gone")
    flow.source.create_topic(topic)
    write(flow.source.bootstrap, topic, plain(150, first=1_000))
    flow.wait_records(topic, 250)
    flow.wait_reason(f"topic {topic} was deleted and made anew on {flow.alias}")
    assert not exists(flow.target, flow.exact_topic)


def test_a_trouble_that_is_over_is_not_shown_any_more(flow: Flow) -> None:
    """The last test of this node: its map begins anew."""
    topic = flow.create("healed", 100)
    flow.wait_records(topic, 100)
    flow.target.admin.delete_topics([flow.exact_topic])[flow.exact_topic].result(30)
    write(flow.source.bootstrap, topic, plain(100, first=100))
    flow.wait_reason(f"write exact offsets to {flow.exact_topic}")
    flow.target.create_topic(flow.exact_topic, config={"cleanup.policy": "compact"})
    wait_until(
        lambda: "write exact offsets" not in str(flow.node.flow(flow.name)["reasons"]),
        SEEN,
        "nothing is said of exact offsets any more, though nothing new is copied",
    )


def kill(process: psutil.Process) -> None:
    process.kill()
    process.wait(10)
