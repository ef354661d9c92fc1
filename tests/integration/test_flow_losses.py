"""Losses of a flow: recorded, shown by commands and REST, and stopping it until an operator accepts them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import TopicPartition as ClientPartition

from tests.integration.shared_node import COPIED, SEEN
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import Outcome, run
from tests.lab.history import count, read_topic
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.topic_configs import alter
from tests.lab.waiting import wait_until

Unique = Callable[[str], str]
TOKEN = "accept-the-losses"
STARTED = 90.0


class Flow:
    """The clusters, aliases and properties of a flow that may be commanded."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, unique: Unique, on_data_loss: str) -> None:
        self.source, self.target = source, target
        self.a, self.b = unique("A"), unique("B")
        self.name = f"{self.a}->{self.b}"
        self.properties = one_flow(source, target, aliases=(self.a, self.b), topics=f"{self.a}-.*") | {
            "emit.heartbeats.enabled": "false",
            "heartbeats.replication.enabled": "false",
            "mm2.rest.admin": "true",
            "mm2.rest.admin.token": TOKEN,
            f"{self.name}.mm2.on.data.loss": on_data_loss,
        }

    def create(self, name: str, records: int) -> str:
        topic = self.source.create_topic(f"{self.a}-{name}")
        write(self.source.bootstrap, topic, plain(records))
        return topic

    def copied(self, topic: str) -> int:
        return count(read_topic(self.target.bootstrap, f"{self.a}.{topic}"))

    def wait_copied(self, topic: str, records: int) -> None:
        wait_until(lambda: self.copied(topic) >= records, COPIED, f"{records} records of {topic} are copied")
        assert self.copied(topic) == records

    def delete_before(self, topic: str, offset: int) -> None:
        for future in self.source.admin.delete_records([ClientPartition(topic, 0, offset)]).values():
            future.result(30)

    def recorded(self) -> list[dict[str, Any]]:
        read = read_topic(self.target.bootstrap, f"mm2-losses.{self.a}.internal").get(0, ())
        return [json.loads(record.content[1] or b"") for record in read]

    def stored(self, topic: str) -> str | None:
        """Return the newest stored source offset of the topic."""
        key = f'["MirrorSourceConnector",{{"cluster":"{self.a}","partition":0,"topic":"{topic}"}}]'.encode()
        read = read_topic(self.target.bootstrap, f"mm2-offsets.{self.a}.internal")
        values = [record.content[1] for records in read.values() for record in records if record.content[0] == key]
        return (values[-1] or b"").decode() if values else None


def losses(*words: str) -> list[dict[str, Any]]:
    """Return the output of mm2 losses."""
    outcome = run("mm2", "losses", *words, "--json")
    assert outcome.code == 0, outcome.stderr
    found: list[dict[str, Any]] = json.loads(outcome.stdout)
    return found


def accept(node: Node, topic: str, *words: str) -> Outcome:
    return run("mm2", "accept-loss", str(node.file), "--topic", topic, "--partition", "0", *words)


def partition_of(node: Node, flow: Flow, topic: str) -> dict[str, Any]:
    return next(iter(node.topic(flow.name, topic).get("partitions", ())), {})


def is_failed(node: Node, flow: Flow) -> bool:
    return node.flow(flow.name).get("state") == "FAILED" and not node.healthy


def test_losses_while_a_topic_is_paused_are_recorded_and_copying_continues(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    flow = Flow(cluster_a, cluster_b, unique, "continue")
    topic, recreated = flow.create("orders", 10), flow.create("again", 10)
    with Node(flow.properties) as node:
        node.wait_running(STARTED)
        flow.wait_copied(topic, 10)
        flow.wait_copied(recreated, 10)
        assert run("mm2", "pause", str(node.file), "--flow", flow.name, "--topic", topic, recreated).code == 0
        wait_until(lambda: partition_of(node, flow, topic).get("state") == "PAUSED", SEEN, "the topics are paused")
        write(cluster_a.bootstrap, topic, plain(30, first=10))
        flow.delete_before(topic, 25)
        cluster_a.delete_topic(recreated)
        cluster_a.create_topic(recreated)
        write(cluster_a.bootstrap, recreated, plain(5))
        assert run("mm2", "resume", str(node.file), "--flow", flow.name).code == 0
        flow.wait_copied(topic, 25)
        flow.wait_copied(recreated, 15)

        wait_until(lambda: len(flow.recorded()) == 2, SEEN, "two losses are recorded")
        by_topic = {one["topic"]: one for one in flow.recorded()}
        loss = by_topic[topic]
        assert (loss["partition"], loss["first"], loss["last"], loss["kind"]) == (0, 10, 24, "retention")
        assert (by_topic[recreated]["first"], by_topic[recreated]["kind"]) == (10, "topic-recreated")

        (shown,) = losses(str(node.file), "--topic", topic)
        assert {name: shown[name] for name in ("topic", "partition", "first", "last", "time", "reason", "kind")} == {
            name: loss[name] for name in ("topic", "partition", "first", "last", "time", "reason", "kind")
        }
        assert shown["flow"] == flow.name
        assert losses(node.url, "--flow", flow.name, "--topic", topic) == [shown]
        table = run("mm2", "losses", str(node.file)).stdout
        assert topic in table
        assert "retention" in table

        wait_until(lambda: len(node.flow(flow.name)["losses"]) == 2, SEEN, "/flows shows the losses")
        in_flows = next(one for one in node.flow(flow.name)["losses"] if one["topic"] == topic)
        assert (in_flows["last"], in_flows["time"], in_flows["kind"]) == (24, loss["time"], "retention")
        labels = {"source": flow.a, "target": flow.b, "topic": f"{flow.a}.{topic}", "partition": "0"}
        assert node.metric("mm2_source_losses_total", **labels) == 1
        assert node.metric("mm2_source_lost_records_total", **labels) == 15
        assert node.healthy
        assert node.process.output().count("source offsets 10 to 24 are lost") == 1
        refused = accept(node, topic)
        assert refused.code == 2
        assert f"no loss of topic {topic} partition 0 stopped anything" in refused.stderr


def test_a_stopped_partition_waits_for_its_acceptance(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    flow = Flow(cluster_a, cluster_b, unique, "stop-partition")
    topic, other = flow.create("orders", 10), flow.create("other", 10)
    with Node(flow.properties) as node:
        node.wait_running(STARTED)
        flow.wait_copied(topic, 10)
        flow.wait_copied(other, 10)
        assert node.stop() == 0
        write(cluster_a.bootstrap, topic, plain(30, first=10))
        flow.delete_before(topic, 25)

        node.start()
        wait_until(lambda: partition_of(node, flow, topic).get("state") == "FAILED", STARTED, "it is stopped")
        command = f"mm2 accept-loss FILE --flow '{flow.name}' --topic {topic} --partition 0"
        assert command in partition_of(node, flow, topic)["error"]
        wait_until(lambda: not node.healthy, SEEN, "/health is 503")
        assert any(command in reason for reason in node.health()["reasons"])
        write(cluster_a.bootstrap, other, plain(5))
        flow.wait_copied(other, 15)  # other partitions continue
        (loss,) = losses(str(node.file))
        assert (loss["first"], loss["last"], loss["stops"], loss["accepted"]) == (10, 24, "partition", False)
        assert (flow.copied(topic), flow.stored(topic)) == (10, '{"offset":9}')

        assert node.stop() == 0
        node.start()
        wait_until(lambda: partition_of(node, flow, topic).get("state") == "FAILED", STARTED, "it is still stopped")
        assert (flow.copied(topic), flow.stored(topic)) == (10, '{"offset":9}')

        wrong = accept(node, other)
        assert wrong.code == 2
        assert f"waiting for acceptance: {topic} partition 0" in wrong.stderr
        assert accept(node, topic, "--flow", flow.name).code == 0
        flow.wait_copied(topic, 25)
        node.wait_running()
        wait_until(lambda: node.healthy, SEEN, "/health is 200")
        (loss,) = losses(str(node.file))
        assert loss["accepted"] is True
        assert accept(node, topic).code == 2

        assert node.stop() == 0
        node.start()
        node.wait_running(STARTED)
        write(cluster_a.bootstrap, topic, plain(1))
        flow.wait_copied(topic, 26)
        assert len(losses(str(node.file))) == 1


def test_a_stopped_flow_stops_on_all_nodes(cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique) -> None:
    flow = Flow(cluster_a, cluster_b, unique, "stop-flow")
    topics = [flow.create(f"orders-{number}", 10) for number in range(4)]
    properties = flow.properties | {"tasks.max": "4", f"{flow.b}.session.timeout.ms": "6000"}
    with Node(properties, name="first") as first, Node(properties, name="second") as second:
        nodes = (first, second)
        for node in nodes:
            node.wait_running(STARTED)
        for topic in topics:
            flow.wait_copied(topic, 10)

        def spread() -> bool:
            tasks = first.flow(flow.name).get("tasks", ())
            return len({task["node"] for task in tasks if task["kind"] == "source"}) == 2

        wait_until(spread, COPIED, "both nodes run source tasks")
        assert run("mm2", "pause", str(first.file), "--flow", flow.name, "--topic", topics[0]).code == 0
        wait_until(lambda: partition_of(first, flow, topics[0]).get("state") == "PAUSED", SEEN, "the topic is paused")
        write(cluster_a.bootstrap, topics[0], plain(30, first=10))
        flow.delete_before(topics[0], 25)
        assert run("mm2", "resume", str(first.file), "--flow", flow.name).code == 0
        command = f"mm2 accept-loss FILE --flow '{flow.name}' --topic {topics[0]} --partition 0"
        for node in nodes:
            wait_until(partial(is_failed, node, flow), SEEN, "the flow is FAILED, and /health is 503")
            assert any(command in reason for reason in node.health()["reasons"])
        for topic in topics:
            write(cluster_a.bootstrap, topic, plain(5))
        first.stop()
        first.start()  # the stop survives a restart
        wait_until(partial(is_failed, first, flow), STARTED, "the flow is still FAILED")
        assert [flow.copied(topic) for topic in topics] == [10, 10, 10, 10]

        assert accept(second, topics[0]).code == 0
        for topic in topics[1:]:
            flow.wait_copied(topic, 15)
        flow.wait_copied(topics[0], 30)
        for node in nodes:
            wait_until(partial(getattr, node, "healthy"), COPIED, "/health is 200")


def test_a_topic_deleted_before_it_was_copied(cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique) -> None:
    """The target rejects the last records, and the topic is deleted meanwhile."""
    flow = Flow(cluster_a, cluster_b, unique, "continue")
    topic = flow.create("deleted", 10)
    with Node(flow.properties) as node:
        node.wait_running(STARTED)
        flow.wait_copied(topic, 10)
        alter(cluster_b, f"{flow.a}.{topic}", "max.message.bytes", "40")
        write(cluster_a.bootstrap, topic, plain(7, first=10))
        wait_until(lambda: partition_of(node, flow, topic).get("state") == "FAILED", SEEN, "the target rejects them")
        cluster_a.delete_topic(topic)
        wait_until(flow.recorded, SEEN, "the loss is recorded")
        (loss,) = flow.recorded()
        assert (loss["topic"], loss["first"], loss["last"], loss["kind"]) == (topic, 10, 16, "topic-deleted")
        assert [one["kind"] for one in losses(str(node.file))] == ["topic-deleted"]
