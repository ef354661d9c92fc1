"""Records that cannot be copied, on nodes: ``mm2 skip`` through any node, and the dead-letter topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run
from tests.lab.history import read_topic
from tests.lab.node import Node
from tests.lab.records import Outgoing, write
from tests.lab.settings import one_flow
from tests.lab.waiting import wait_until

Unique = Callable[[str], str]
TOKEN = "skip-what-is-broken"
SEEN = 60.0  # seconds until nodes share a flow and show a change, on busy cores
SKIPPED = 20.0  # seconds until a skip took effect: less than the 30 s after which a FAILED partition is retried
PARTITIONS = 4
BAD = 10
COUNT = 21


class Flow:
    """A flow with one topic whose remote topic is compacted, so that it rejects a record without key."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, unique: Unique) -> None:
        self.source, self.target = source, target
        self.a, self.b = unique("A"), unique("B")
        self.name = f"{self.a}->{self.b}"
        self.topic = source.create_topic(unique(f"{self.a}-orders"), PARTITIONS)
        self.remote = target.create_topic(f"{self.a}.{self.topic}", PARTITIONS, config={"cleanup.policy": "compact"})
        records = [
            Outgoing(key=None if number == BAD else b"%d" % number, value=b"%d" % number, partition=partition)
            for partition in range(PARTITIONS)
            for number in range(COUNT)
        ]
        write(source.bootstrap, self.topic, records)
        self.properties = one_flow(source, target, aliases=(self.a, self.b), topics=f"{self.a}-.*") | {
            "tasks.max": str(PARTITIONS),
            "mm2.lanes": "1",
            "mm2.rest.admin": "true",
            "mm2.rest.admin.token": TOKEN,
            "sync.topic.configs.enabled": "false",
            "emit.heartbeats.enabled": "false",
            "heartbeats.replication.enabled": "false",
        }

    def wait_partitions(self, node: Node, timeout: float, **expected: object) -> list[dict[str, Any]]:
        """Wait until ``node`` shows all partitions with these values, and return them."""

        def seen() -> list[dict[str, Any]] | None:
            partitions: list[dict[str, Any]] = node.topic(self.name, self.topic).get("partitions", [])
            as_expected = all(one[key] == value for one in partitions for key, value in expected.items())
            shared = len({one["node"] for one in partitions}) == len(node.flow(self.name).get("members", ()))
            return partitions if len(partitions) == PARTITIONS and as_expected and shared else None

        found = wait_until(seen, timeout, f"all partitions of {self.topic} have {expected}")
        assert found is not None
        return found

    def remote_values(self) -> list[list[bytes | None]]:
        read = read_topic(self.target.bootstrap, self.remote)
        return [[record.value for record in read[number]] for number in range(PARTITIONS)]


@pytest.fixture
def flow(cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique) -> Flow:
    return Flow(cluster_a, cluster_b, unique)


GOOD = [b"%d" % number for number in range(COUNT) if number != BAD]


def skip(node: Node, topic: str, partition: int, offset: int, *more: str) -> Any:
    words = ("--topic", topic, "--partition", str(partition), "--offset", str(offset), *more)
    return run("mm2", "skip", str(node.file), *words)


def test_a_record_is_skipped_through_any_node(flow: Flow) -> None:
    with ExitStack() as stack:
        nodes = [stack.enter_context(Node(flow.properties, name=name)) for name in ("first", "second")]
        for node in nodes:
            node.wait_answering()
            wait_until(lambda: len(node.flow(flow.name).get("members", ())) == 2, SEEN, "two nodes share the flow")  # noqa: B023
            partitions = flow.wait_partitions(node, SEEN, state="FAILED", stopped_at=BAD, stopped_until=BAD + 1)
        assert all(f"offset {BAD} to {flow.remote}" in one["error"] for one in partitions)
        assert flow.remote_values() == [GOOD[:BAD]] * PARTITIONS

        wrong = skip(nodes[0], flow.topic, 0, BAD - 1)
        assert wrong.code == 1
        assert f"{flow.topic}-0 is not stopped at this offset, but at offset {BAD}: " in wrong.stderr, wrong.stderr
        assert skip(nodes[0], flow.topic, PARTITIONS, BAD).code == 2
        for number in range(PARTITIONS):
            outcome = skip(nodes[number % 2], flow.topic, number, BAD)
            assert outcome.code == 0, outcome.stderr
            assert f"{flow.name}: skipping offset {BAD} of {flow.topic}-{number}, recorded as a loss" in outcome.stdout
        for node in nodes:
            flow.wait_partitions(node, SKIPPED, state="RUNNING", position=COUNT, stopped_at=None, error=None)
        assert flow.remote_values() == [GOOD] * PARTITIONS
        losses = nodes[0].flow(flow.name)["losses"]
        assert {(one["partition"], one["first"], one["until"], one["kind"]) for one in losses} == {
            (number, BAD, BAD + 1, "skipped") for number in range(PARTITIONS)
        }
        late = skip(nodes[1], flow.topic, 0, BAD + 1)
        assert f"{flow.topic}-0 is not stopped by a record that cannot be copied: it is RUNNING" in late.stderr

        def skips() -> object:
            records = read_topic(flow.target.bootstrap, f"mm2-configs.{flow.a}.internal")[0]
            newest = [record.value for record in records if record.key == b"mm2-skips"][-1]
            return json.loads(newest or b"")["skips"]

        wait_until(lambda: skips() == [], 90, "skips are forgotten after the offsets behind them are stored")


def test_dead_letters_of_a_node(flow: Flow) -> None:
    properties = flow.properties | {"errors.tolerance": "all"}
    letters = f"mm2-dead-letters.{flow.a}.internal"
    with Node(properties) as node:
        node.wait_running()
        flow.wait_partitions(node, SEEN, state="RUNNING", position=COUNT, error=None)
        assert node.healthy
        assert flow.remote_values() == [GOOD] * PARTITIONS
        found = read_topic(flow.target.bootstrap, letters)[0]
        assert [(record.key, record.value) for record in found] == [(None, b"%d" % BAD)] * PARTITIONS
        assert {dict(record.headers)["__connect.errors.partition"] for record in found} == {
            b"%d" % number for number in range(PARTITIONS)
        }
        resource = ConfigResource(ResourceType.TOPIC, letters)
        configs = flow.target.admin.describe_configs([resource])[resource].result(30)
        names = ("cleanup.policy", "max.message.bytes", "retention.ms", "retention.bytes")
        assert [configs[name].value for name in names] == ["delete", str(64 * 1024 * 1024), "-1", "-1"]
        labels = {"source": flow.a, "target": flow.b, "topic": flow.remote}
        assert node.metric("mm2_source_dead_letters_total", **labels, partition="0") == 1
        warning = f"cannot copy {flow.topic}-0 offset {BAD} to {flow.remote}-0: "
        found_warnings = [line for line in node.process.output().splitlines() if "WARNING" in line and warning in line]
        assert len(found_warnings) == 1
        assert "written to" in found_warnings[0]
        assert letters in found_warnings[0]
