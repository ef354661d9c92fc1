"""Losses of a flow: recorded, shown by commands and REST, and stopping it until an operator accepts them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from confluent_kafka import TopicPartition as ClientPartition

from tests.integration.shared_node import COPIED, SEEN
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import Outcome, run
from tests.lab.fixtures import unique_name
from tests.lab.history import count, read_topic
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import ONE_COPY
from tests.lab.topic_configs import alter
from tests.lab.waiting import wait_until

TOKEN = "accept-the-losses"
STARTED = 90.0
APPLIED = "new configuration applied"


class Flow:
    """A flow that may be commanded: of topics that start with its own alias of the source."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, b: str, on_data_loss: str) -> None:
        self.source, self.target = source, target
        self.a, self.b = unique_name("A"), b
        self.name = f"{self.a}->{self.b}"
        self.properties = {
            f"{self.a}.bootstrap.servers": source.bootstrap,
            f"{self.name}.enabled": "true",
            f"{self.name}.topics": f"{self.a}-.*",
            f"{self.name}.mm2.on.data.loss": on_data_loss,
        }

    def create(self, name: str, records: int) -> str:
        topic = self.source.create_topic(unique_name(f"{self.a}-{name}"))
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

    def recorded(self, *topics: str) -> list[dict[str, Any]]:
        """Return the losses of these topics in the topic of losses."""
        read = read_topic(self.target.bootstrap, f"mm2-losses.{self.a}.internal").get(0, ())
        losses = [json.loads(record.content[1] or b"") for record in read]
        return [loss for loss in losses if loss["topic"] in topics]

    def stored(self, topic: str) -> str | None:
        """Return the newest stored source offset of the topic."""
        key = f'["MirrorSourceConnector",{{"cluster":"{self.a}","partition":0,"topic":"{topic}"}}]'.encode()
        read = read_topic(self.target.bootstrap, f"mm2-offsets.{self.a}.internal")
        values = [record.content[1] for records in read.values() for record in records if record.content[0] == key]
        return (values[-1] or b"").decode() if values else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A node with a flow for each value of mm2.on.data.loss, and what a second node needs to join it."""

    node: Node
    properties: dict[str, str]
    continuing: Flow
    stop_partition: Flow
    stop_flow: Flow


@pytest.fixture(scope="module")
def stage(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> Iterator[Stage]:
    b = unique_name("B")
    flows = [Flow(cluster_a, cluster_b, b, value) for value in ("continue", "stop-partition", "stop-flow")]
    properties = {
        "clusters": ", ".join((*(flow.a for flow in flows), b)),
        f"{b}.bootstrap.servers": cluster_b.bootstrap,
        f"{b}.session.timeout.ms": "6000",
        **ONE_COPY,
        **{key: value for flow in flows for key, value in flow.properties.items()},
        f"{flows[2].name}.tasks.max": "4",
        "refresh.topics.interval.seconds": "1",
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "mm2.rest.admin": "true",
        "mm2.rest.admin.token": TOKEN,
    }
    with Node(properties, name="losses") as node:
        node.wait_running(STARTED)
        continuing, stop_partition, stop_flow = flows
        yield Stage(
            node=node,
            properties=properties,
            continuing=continuing,
            stop_partition=stop_partition,
            stop_flow=stop_flow,
        )


def losses(*words: str) -> list[dict[str, Any]]:
    """Return the output of mm2 losses."""
    outcome = run("mm2", "losses", *words, "--json")
    assert outcome.code == 0, outcome.stderr
    found: list[dict[str, Any]] = json.loads(outcome.stdout)
    return found


def accept(node: Node, flow: Flow, topic: str, *more: str) -> Outcome:
    words = ("--flow", flow.name, "--topic", topic, "--partition", "0", *more)
    return run("mm2", "accept-loss", str(node.file), *words)


def partition_of(node: Node, flow: Flow, topic: str) -> dict[str, Any]:
    return next(iter(node.topic(flow.name, topic).get("partitions", ())), {})


def is_failed(node: Node, flow: Flow) -> bool:
    return node.flow(flow.name).get("state") == "FAILED" and not node.healthy


def pause(node: Node, flow: Flow, *topics: str) -> None:
    """Pause topics, and wait until the first one is not copied any more."""
    assert run("mm2", "pause", str(node.file), "--flow", flow.name, "--topic", *topics).code == 0
    wait_until(lambda: partition_of(node, flow, topics[0]).get("state") == "PAUSED", SEEN, "the topics are paused")


def resume(node: Node, flow: Flow) -> None:
    assert run("mm2", "resume", str(node.file), "--flow", flow.name).code == 0


def rewrite(node: Node, properties: dict[str, str]) -> None:
    seen = node.process.output().count(APPLIED)
    node.rewrite(properties)
    wait_until(lambda: node.process.output().count(APPLIED) > seen, SEEN, "the node has read its file")


def test_losses_while_a_topic_is_paused_are_recorded_and_copying_continues(stage: Stage) -> None:
    node, flow = stage.node, stage.continuing
    topic, recreated = flow.create("orders", 10), flow.create("again", 10)
    flow.wait_copied(topic, 10)
    flow.wait_copied(recreated, 10)
    pause(node, flow, topic, recreated)
    write(flow.source.bootstrap, topic, plain(30, first=10))
    flow.delete_before(topic, 25)
    flow.source.delete_topic(recreated)
    flow.source.create_topic(recreated)
    write(flow.source.bootstrap, recreated, plain(5))
    resume(node, flow)
    flow.wait_copied(topic, 25)
    flow.wait_copied(recreated, 15)

    wait_until(lambda: len(flow.recorded(topic, recreated)) == 2, SEEN, "two losses are recorded")
    by_topic = {one["topic"]: one for one in flow.recorded(topic, recreated)}
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

    def in_flows() -> dict[str, dict[str, Any]]:
        return {one["topic"]: one for one in node.flow(flow.name)["losses"]}

    wait_until(lambda: {topic, recreated} <= in_flows().keys(), SEEN, "/flows shows the losses")
    found = in_flows()[topic]
    assert (found["last"], found["time"], found["kind"]) == (24, loss["time"], "retention")
    labels = {"source": flow.a, "target": flow.b, "topic": f"{flow.a}.{topic}", "partition": "0"}
    assert node.metric("mm2_source_losses_total", **labels) == 1
    assert node.metric("mm2_source_lost_records_total", **labels) == 15
    assert node.healthy
    assert node.process.output().count("source offsets 10 to 24 are lost") == 1
    unaccepted = {**labels, "kind": "retention"}
    assert node.metric("mm2_source_unaccepted_losses", **unaccepted) == 1
    assert (
        f"! topic {topic} partition 0: source offsets 10 to 24 are lost" in run("mm2", "status", str(node.file)).stdout
    )
    accepted = accept(node, flow, topic, "--reason", "ticket 4711")
    assert accepted.code == 0, accepted.stderr
    assert f"accepted: source offsets 10 to 24 are lost of {topic}-0" in accepted.stdout
    wait_until(lambda: not node.metric("mm2_source_unaccepted_losses", **unaccepted), SEEN, "it is accepted")
    assert f"! topic {topic} partition 0" not in run("mm2", "status", str(node.file)).stdout
    (shown,) = losses(str(node.file), "--topic", topic)
    assert (shown["time"], shown["accepted"]) == (loss["time"], True)
    assert (shown["accepted_by"], shown["accept_reason"]) == ("admin", "ticket 4711")
    assert shown["accepted_at"] > loss["time"]
    refused = accept(node, flow, topic)
    assert refused.code == 2
    assert f"no loss of topic {topic} partition 0 waits for acceptance" in refused.stderr


def test_a_partition_whose_stored_offset_is_gone_starts_when_an_operator_says_so(stage: Stage) -> None:
    """The target has records of it, and neither an offset nor the exact offset map tells where it continues."""
    node, flow = stage.node, stage.continuing
    topic = unique_name(f"{flow.a}-gone")
    write(flow.target.bootstrap, flow.target.create_topic(f"{flow.a}.{topic}", 2), plain(5))
    flow.source.create_topic(topic, 2)
    write(flow.source.bootstrap, topic, plain(20, partitions=2))
    reason = (
        f"no offset of {topic}-0 is stored in mm2-offsets.{flow.a}.internal, although {flow.a}.{topic}-0 has records"
    )
    command = f"mm2 accept-loss FILE --flow '{flow.name}' --topic {topic} --partition 0"

    def stopped() -> bool:
        found = partition_of(node, flow, topic)
        return found.get("state") == "FAILED" and reason in found["error"] and command in found["error"]

    wait_until(stopped, SEEN, "partition 0 is stopped")
    wait_until(lambda: flow.copied(topic) == 15, COPIED, "partition 1 is copied, as nothing is there")
    assert any(reason in one for one in node.health()["reasons"])
    assert reason in run("mm2", "status", str(node.file)).stdout
    logged = [line for line in node.process.output().splitlines() if reason in line and "lease_builder" in line]
    assert len(logged) == 1
    assert stopped()
    accepted = accept(node, flow, topic)
    assert (accepted.code, f"starting as if nothing was copied: {topic}-0" in accepted.stdout) == (0, True), accepted
    wait_until(lambda: flow.copied(topic) == 25, COPIED, "partition 0 is copied")
    wait_until(lambda: partition_of(node, flow, topic).get("state") == "RUNNING", SEEN, "it runs")
    assert accept(node, flow, topic).code == 2, "nothing waits any more"


def test_a_topic_deleted_before_it_was_copied(stage: Stage) -> None:
    """The target rejects the last records, and the topic is deleted meanwhile."""
    node, flow = stage.node, stage.continuing
    topic = flow.create("deleted", 10)
    flow.wait_copied(topic, 10)
    alter(flow.target, f"{flow.a}.{topic}", "max.message.bytes", "40")
    write(flow.source.bootstrap, topic, plain(7, first=10))
    wait_until(lambda: partition_of(node, flow, topic).get("state") == "FAILED", SEEN, "the target rejects them")
    flow.source.delete_topic(topic)
    wait_until(lambda: flow.recorded(topic), SEEN, "the loss is recorded")
    (loss,) = flow.recorded(topic)
    assert (loss["first"], loss["last"], loss["kind"]) == (10, 16, "topic-deleted")
    assert [one["kind"] for one in losses(str(node.file), "--topic", topic)] == ["topic-deleted"]


# with a second node, another start of Spark
@pytest.mark.parametrize("number_of_nodes", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_loss_stops_a_partition_or_a_flow_until_it_is_accepted(stage: Stage, number_of_nodes: int) -> None:
    """Also after a restart. A flow stops on all nodes, a partition stops alone."""
    first, partition, flow = stage.node, stage.stop_partition, stage.stop_flow
    topic, other = partition.create("orders", 10), partition.create("other", 10)
    topics = [flow.create(f"orders-{number}", 10) for number in range(4)]
    with ExitStack() as ends:
        others = [ends.enter_context(Node(stage.properties, name="second")) for _ in range(1, number_of_nodes)]
        nodes = (first, *others)
        for node in nodes:
            node.wait_running(STARTED)
        for one in (topic, other):
            partition.wait_copied(one, 10)
        for one in topics:
            flow.wait_copied(one, 10)

        def spread() -> bool:
            tasks = first.flow(flow.name).get("tasks", ())
            return len({task["node"] for task in tasks if task["kind"] == "source"}) == number_of_nodes

        wait_until(spread, COPIED, "all nodes run source tasks")
        for stopping, lost in ((partition, topic), (flow, topics[0])):
            pause(first, stopping, lost)
            write(stopping.source.bootstrap, lost, plain(30, first=10))
            stopping.delete_before(lost, 25)
            resume(first, stopping)
        of_partition = f"mm2 accept-loss FILE --flow '{partition.name}' --topic {topic} --partition 0"
        of_flow = f"mm2 accept-loss FILE --flow '{flow.name}' --topic {topics[0]} --partition 0"
        for node in nodes:
            wait_until(partial(is_failed, node, flow), SEEN, "the flow is FAILED, and /health is 503")
            assert any(of_flow in reason for reason in node.health()["reasons"])
        wait_until(lambda: is_stopped(first, partition, topic), SEEN, "the partition is stopped")
        assert of_partition in partition_of(first, partition, topic)["error"]
        wait_until(
            lambda: any(of_partition in reason for node in nodes for reason in node.health()["reasons"]),
            SEEN,
            "/health names the partition",
        )
        for one in topics:
            write(flow.source.bootstrap, one, plain(5))

        assert first.stop() == 0
        first.start()
        wait_until(partial(is_failed, first, flow), STARTED, "the flow is still FAILED")
        wait_until(lambda: is_stopped(first, partition, topic), STARTED, "the partition is still stopped")
        write(partition.source.bootstrap, other, plain(5))
        partition.wait_copied(other, 15)  # other partitions continue
        (loss,) = losses(str(first.file), "--flow", partition.name)
        assert (loss["first"], loss["last"], loss["stops"], loss["accepted"]) == (10, 24, "partition", False)
        noticed = loss["time"]
        assert (partition.copied(topic), partition.stored(topic)) == (10, '{"offset":9}')
        assert [flow.copied(one) for one in topics] == [10, 10, 10, 10]

        wrong = accept(first, partition, other)
        assert wrong.code == 2
        assert f"waiting for acceptance: {topic} partition 0" in wrong.stderr
        assert accept(nodes[-1], partition, topic).code == 0
        partition.wait_copied(topic, 25)
        assert accept(nodes[-1], flow, topics[0]).code == 0
        for one in topics[1:]:
            flow.wait_copied(one, 15)
        flow.wait_copied(topics[0], 30)
        for node in nodes:
            wait_until(partial(getattr, node, "healthy"), COPIED, "/health is 200")
        (loss,) = losses(str(first.file), "--flow", partition.name)
        assert (loss["accepted"], loss["accepted_by"], loss["time"]) == (True, "admin", noticed)
        assert accept(first, partition, topic).code == 2
        for node in others:
            assert node.stop() == 0

        write(partition.source.bootstrap, topic, plain(1))
        partition.wait_copied(topic, 26)  # by a task that has started after the acceptance, or has lived through it
        assert len(losses(str(first.file), "--flow", partition.name)) == 1


def is_stopped(node: Node, flow: Flow, topic: str) -> bool:
    return partition_of(node, flow, topic).get("state") == "FAILED"


def test_a_change_of_the_file_continues_after_a_loss(stage: Stage) -> None:
    """Without a command: mm2.on.data.loss = continue, and auto.offset.reset other than none."""
    node, flow = stage.node, stage.stop_partition
    topic = flow.create("reset", 10)
    flow.wait_copied(topic, 10)

    def lose(first: int) -> None:
        """Write 20 records, of which the source deletes ten before they are copied."""
        pause(node, flow, topic)
        write(flow.source.bootstrap, topic, plain(20, first=first))
        flow.delete_before(topic, first + 10)
        resume(node, flow)

    lose(10)
    wait_until(lambda: is_stopped(node, flow, topic), SEEN, "the partition is stopped")
    continuing = stage.properties | {f"{flow.name}.mm2.on.data.loss": "continue"}
    rewrite(node, continuing)
    flow.wait_copied(topic, 20)
    rewrite(node, continuing | {f"{flow.a}.consumer.auto.offset.reset": "none"})
    lose(30)
    wait_until(
        lambda: "auto.offset.reset is none" in (partition_of(node, flow, topic).get("error") or ""),
        SEEN,
        "it is stopped",
    )
    rewrite(node, continuing)
    flow.wait_copied(topic, 30)
    assert {one["first"] for one in flow.recorded(topic)} == {10, 30}
