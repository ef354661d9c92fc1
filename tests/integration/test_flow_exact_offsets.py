"""Exact offsets and recreated topics with a complete node: restarts, killed lanes, and reported reasons."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial

import psutil
import pytest

from mm2.cli.clusters.cluster_access import read_settings
from mm2.cli.clusters.map_rebuild import RebuildJob
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import Segment
from tests.integration.shared_node import COPIED, SEEN, exists
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run
from tests.lab.exact_map import judge, read_segments
from tests.lab.fixtures import unique_name
from tests.lab.history import count, end_offset_sum, read_topic
from tests.lab.lanes import lanes
from tests.lab.node import RUNS_WITHIN, Node
from tests.lab.records import Outgoing, plain, write
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow of a separate node, which tests restart. ``compatible``: a flow without exact offsets, which starts at a
    time; its topic ``timed`` has 30 records before and 30 after it."""

    node: Node
    source: KafkaCluster
    target: KafkaCluster
    alias: str
    target_alias: str
    compatible: Flow | None = None
    timed: str = ""

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

    def recreate(self, cluster: KafkaCluster, topic: str) -> None:
        cluster.delete_topic(topic)
        cluster.create_topic(topic)

    def wait_stored(self, topic: str, offset: int) -> None:
        """Wait until the offset of the topic's last copied record is stored, after its exact offsets and topic ids."""
        key = f'["MirrorSourceConnector",{{"cluster":"{self.alias}","partition":0,"topic":"{topic}"}}]'.encode()
        stored = (key, f'{{"offset":{offset}}}'.encode())

        def seen() -> bool:
            read = read_topic(self.target.bootstrap, f"mm2-offsets.{self.alias}.internal")
            return any(one.content[:2] == stored for records in read.values() for one in records)

        wait_until(seen, SEEN, f"offset {offset} of {topic} is stored")

    def wait_records(self, topic: str, records: int) -> None:
        """Wait until the remote topic has at least this many records."""
        remote = (self.target.bootstrap, f"{self.alias}.{topic}")

        def arrived() -> bool:
            # not every offset is a record: a killed producer is fenced with a marker
            return end_offset_sum(*remote) >= records and count(read_topic(*remote)) >= records

        wait_until(arrived, COPIED, f"{remote[1]} has {records} records")

    def wait_reason(self, words: str) -> None:
        wait_until(
            lambda: any(words in reason for reason in self.node.flow(self.name)["reasons"]),
            SEEN,
            f"a reason of {self.name} contains {words!r}",
        )

    def ends_with(self, topic: str, ranges: tuple[tuple[int, ...], ...]) -> bool:
        """Return whether the map of the topic ends with these ranges."""
        return self.segments(topic)[-1].ranges[-len(ranges) :] == ranges

    def extents(self, topic: str) -> list[tuple[int | None, bool | None]]:
        """Return how far back the map of each partition goes, as the node shows it."""
        partitions = self.node.topic(self.name, topic)["partitions"]
        return [(one["exact_from"], one["exact_to_start"]) for one in partitions]

    def segments(self, topic: str) -> list[Segment]:
        return read_segments(self.target.bootstrap, self.exact_topic).get(TopicPartition(topic, 0), [])


@pytest.fixture(scope="module")
def flow(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> Iterator[Flow]:
    a, b, c = unique_name("A"), unique_name("B"), unique_name("C")
    start = datetime.now(timezone(timedelta(hours=1))).replace(microsecond=0) - timedelta(hours=1)
    start_ms = int(start.timestamp() * 1000)
    timed = cluster_a.create_topic(unique_name(f"{c}-timed"))
    write(cluster_a.bootstrap, timed, [Outgoing(value=b"%d" % n, timestamp_ms=start_ms + n - 30) for n in range(60)])
    properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*") | {
        "clusters": f"{a}, {b}, {c}",
        f"{c}.bootstrap.servers": cluster_a.bootstrap,
        f"{c}->{b}.enabled": "true",
        f"{c}->{b}.topics": f"{c}-.*",
        f"{c}->{b}.mm2.offset.translation": "compatible",
        f"{c}->{b}.mm2.start": start.isoformat(),
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "mm2.lanes": "1",
        f"{a}.consumer.auto.offset.reset": "latest",
        f"{c}.consumer.auto.offset.reset": "latest",
        f"{b}.offset.flush.interval.ms": "200",
        "mm2.rest.admin": "true",
        "mm2.rest.admin.token": "token-of-this-stage",
    }
    with Node(properties, name="exact-offsets") as node:
        node.wait_running()
        yield Flow(node, cluster_a, cluster_b, a, b, Flow(node, cluster_a, cluster_b, c, b, timed=timed))


@pytest.mark.long  # test_flow_losses.py; the map: flows/test_exact_offsets.py
def test_topics_recreated_while_the_node_is_down_and_while_it_runs(flow: Flow) -> None:
    """Copied from the beginning, regardless of auto.offset.reset = latest and the stored offset. A partition without
    records keeps the start that was stored for it."""
    source, target, node = flow.source, flow.target, flow.node
    empty = source.create_topic(f"{flow.alias}-empty")
    down, running = source.create_topic(f"{flow.alias}-down"), source.create_topic(f"{flow.alias}-running")
    for topic in (down, running):
        # a node without topics is healthy before Spark has started
        wait_until(lambda topic=topic: flow.is_running(topic), RUNS_WITHIN, f"{topic} runs")  # type: ignore[misc]
        write(source.bootstrap, topic, plain(100))
        flow.wait_records(topic, 100)
        flow.wait_stored(topic, 99)
    flow.wait_stored(empty, -1)
    node.kill()
    wait_until(lambda: not node.family(), SEEN, "no lane is left")
    write(source.bootstrap, empty, plain(10))
    flow.recreate(source, down)
    write(source.bootstrap, down, plain(150, first=1_000))
    node.start().wait_running()
    flow.wait_records(down, 250)
    flow.wait_records(empty, 10)
    flow.recreate(source, running)
    write(source.bootstrap, running, plain(150, first=1_000))
    flow.wait_records(running, 250)
    for topic in (down, running):
        flow.wait_reason(f"topic {topic} was deleted and recreated on {flow.alias}; replicating it from the beginning")
        remote = read_topic(target.bootstrap, f"{flow.alias}.{topic}")[0]
        recreated = read_topic(source.bootstrap, topic)[0]
        assert [one.content for one in remote[100:]] == [one.content for one in recreated]
        expected = ((0, remote[100].offset, 150, 0),)
        wait_until(partial(flow.ends_with, topic, expected), SEEN, f"the offsets of {topic} are written")
        eras = [segment.era for segment in flow.segments(topic)]
        assert eras == sorted(eras)
        assert eras[-1] == eras[0] + 1


def test_start_at_a_time(flow: Flow) -> None:
    assert flow.compatible is not None
    flow = flow.compatible
    flow.wait_records(flow.timed, 30)
    remote = read_topic(flow.target.bootstrap, f"{flow.alias}.{flow.timed}")[0]
    assert [one.content[1] for one in remote] == [b"%d" % number for number in range(30, 60)]


def test_remote_topic_recreated(flow: Flow) -> None:
    topic = flow.create("remote", 0)
    wait_until(lambda: flow.is_running(topic), SEEN, f"{topic} runs")
    write(flow.source.bootstrap, topic, plain(100))
    flow.wait_records(topic, 100)
    flow.wait_stored(topic, 99)  # the id of the remote topic is learned with this
    remote = f"{flow.alias}.{topic}"
    flow.target.admin.delete_topics([remote])[remote].result(30)
    wait_until(lambda: exists(flow.target, remote), SEEN, "the node has recreated it")
    write(flow.source.bootstrap, topic, plain(50, first=100))
    flow.wait_records(topic, 50)
    flow.wait_reason(f"remote topic {remote} was deleted and recreated on {flow.target_alias}")


def test_killed_lane_leaves_a_complete_map(flow: Flow) -> None:
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
        """Return whether the end offset is exact, so that records of the killed lane are recorded too."""
        segments = flow.segments(topic)
        return 9_000 in judge(segments, read_topic(*source)[0], read_topic(*remote)[0]).exact

    wait_until(end_is_written, SEEN, "all exact offsets are written")
    wait_until(lambda: flow.extents(topic) == [(0, True)], SEEN, "the leader knows how far back the map goes")


def test_compatible_flow_detects_a_recreated_topic(flow: Flow) -> None:
    """Deleted and later recreated: the stored offset of the old topic is not used for the new one."""
    assert flow.compatible is not None
    flow = flow.compatible
    topic = flow.create("plain", 0)
    wait_until(lambda: flow.is_running(topic), SEEN, f"{topic} runs")
    write(flow.source.bootstrap, topic, plain(100))
    flow.wait_records(topic, 100)
    flow.wait_stored(topic, 99)
    flow.source.delete_topic(topic)
    wait_until(lambda: not flow.node.topic(flow.name, topic), SEEN, "the node has noticed the deletion")
    flow.source.create_topic(topic)
    write(flow.source.bootstrap, topic, plain(150, first=1_000))
    flow.wait_records(topic, 250)
    flow.wait_reason(f"topic {topic} was deleted and recreated on {flow.alias}")
    assert not exists(flow.target, flow.exact_topic)
    assert flow.extents(topic) == [(None, None)]


@pytest.mark.long  # restarts the node; smaller: tests/integration/node/test_worker_topics.py and test_lease_builder.py
def test_stored_offsets_are_deleted_while_the_node_is_down(flow: Flow) -> None:
    """With the exact map nothing is repeated or left out; without it, nothing is copied until an operator decides."""
    assert flow.compatible is not None
    source, target, node = flow.source, flow.target, flow.node
    topic = flow.create("gone", 0)
    wait_until(lambda: flow.is_running(topic), SEEN, f"{topic} runs")
    write(source.bootstrap, topic, plain(100))
    flow.wait_records(topic, 100)
    flow.wait_stored(topic, 99)
    assert node.stop() == 0
    offsets = [f"mm2-offsets.{one.alias}.internal" for one in (flow, flow.compatible)]
    for name in offsets:
        target.delete_topic(name)
    write(source.bootstrap, topic, plain(50, first=100))
    node.start().wait_answering()
    flow.wait_records(topic, 150)
    flow.wait_reason(f"is gone from {offsets[0]}; continuing at offset")
    remote = read_topic(target.bootstrap, f"{flow.alias}.{topic}")[0]
    assert [one.content for one in remote] == [one.content for one in read_topic(source.bootstrap, topic)[0]]

    kept = flow.compatible
    lost = f"no offset of {kept.timed}-0 is stored in {offsets[1]}, although {kept.alias}.{kept.timed}-0 has records"
    wait_until(lambda: lost in str(node.topic(kept.name, kept.timed)), SEEN, "without the map it is stopped")
    stopped = [one["topic"] for one in node.flow(kept.name)["topics"] if one["state"] == "FAILED"]
    keys = [f'["MirrorSourceConnector",{{"cluster":"{kept.alias}","partition":0,"topic":"{one}"}}]' for one in stopped]
    tombstones = [Outgoing(key=key.encode(), value=None) for key in keys]
    write(target.bootstrap, offsets[1], tombstones, settings={"partitioner": "murmur2_random"})
    node.wait_running()


def test_a_lost_map_is_rebuilt_by_content(flow: Flow) -> None:
    """While the topic is paused. The lane continues it when the topic is resumed."""
    topic = flow.create("rebuilt", 0)
    wait_until(lambda: flow.is_running(topic), SEEN, f"{topic} runs")
    write(flow.source.bootstrap, topic, plain(300))
    flow.wait_records(topic, 300)
    flow.wait_stored(topic, 299)
    file, chosen = str(flow.node.file), ("--flow", flow.name, "--topic", topic)
    refused = run("mm2", "map", "rebuild", file, *chosen, "--yes")
    assert (refused.code, "pause it first" in " ".join(refused.stderr.split())) == (1, True)

    assert run("mm2", "pause", file, *chosen).code == 0
    wait_until(lambda: flow.node.topic(flow.name, topic)["state"] == "PAUSED", SEEN, f"{topic} is paused")
    written = flow.segments(topic)
    write(flow.target.bootstrap, flow.exact_topic, [Outgoing(key=one.key(), value=None) for one in written])
    write(flow.target.bootstrap, f"{flow.alias}.{topic}", [Outgoing(value=b"of others")])
    (settings,) = (one for one in read_settings(flow.node.file).flows if str(one.flow) == flow.name)
    job = RebuildJob(settings, topic, None, bytes_per_second=10_000_000, settled_s=3)
    assert asyncio.run(job.run(confirm=None)) == 0
    rebuilt = flow.segments(topic)[len(written) :]
    assert [(one.era, one.sequence) for one in rebuilt] == [(written[-1].era + 1, written[-1].sequence + 1)]
    assert [tuple(one) for one in rebuilt[0].ranges] == [tuple(one) for one in written[-1].ranges]
    assert rebuilt[0].topic_ids == written[-1].topic_ids
    assert rebuilt[0].epochs == written[-1].epochs

    assert run("mm2", "resume", file, *chosen).code == 0
    write(flow.source.bootstrap, topic, plain(100, first=300))
    flow.wait_records(topic, 401)
    remote = (flow.target.bootstrap, f"{flow.alias}.{topic}")

    def is_exact() -> bool:
        found = judge(flow.segments(topic), read_topic(flow.source.bootstrap, topic)[0], read_topic(*remote)[0])
        return found.exact == set(range(401))

    wait_until(is_exact, SEEN, "the lane has continued the rebuilt map")
    assert flow.segments(topic)[-1].era == rebuilt[-1].era


def test_resolved_error_is_removed(flow: Flow) -> None:
    """Must be the last test with this node, since it resets the exact map."""
    topic = flow.create("healed", 0)
    wait_until(lambda: flow.is_running(topic), SEEN, f"{topic} runs")
    write(flow.source.bootstrap, topic, plain(100))
    flow.wait_records(topic, 100)
    flow.target.admin.delete_topics([flow.exact_topic])[flow.exact_topic].result(30)
    write(flow.source.bootstrap, topic, plain(100, first=100))
    flow.wait_reason(f"cannot write exact offsets to {flow.exact_topic}")
    flow.target.create_topic(flow.exact_topic, config={"cleanup.policy": "compact"})
    wait_until(
        lambda: "write exact offsets" not in str(flow.node.flow(flow.name)["reasons"]),
        SEEN,
        "the reason about exact offsets is removed, even without new records",
    )


def kill(process: psutil.Process) -> None:
    process.kill()
    process.wait(10)
