"""Records that cannot be copied, on nodes: ``mm2 skip`` through any node, the dead-letter topic, and the repairs of
docs/how-to/troubleshooting.md on the target, which last while the node syncs configurations."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from mm2.config.keys.connector_keys import SourceSettings
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run
from tests.lab.fixtures import unique_name
from tests.lab.history import read_topic
from tests.lab.node import Node
from tests.lab.records import Outgoing, write
from tests.lab.settings import ONE_COPY
from tests.lab.topic_configs import alter, configs
from tests.lab.waiting import wait_until

TOKEN = "skip-what-is-broken"
SEEN = 60.0  # seconds until nodes share a flow and show a change, on busy cores
SKIPPED = 20.0  # seconds until a skip took effect: less than the 30 s after which a FAILED partition is retried
PARTITIONS = 4
BAD = 10
COUNT = 21


class Flow:
    """A flow with one topic whose remote topic is compacted, so that it rejects a record without key."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, b: str, **settings: str) -> None:
        self.source, self.target = source, target
        self.a, self.b = unique_name("A"), b
        self.name = f"{self.a}->{self.b}"
        self.topic = source.create_topic(unique_name(f"{self.a}-orders"), PARTITIONS)
        self.remote = target.create_topic(f"{self.a}.{self.topic}", PARTITIONS, config={"cleanup.policy": "compact"})
        records = [
            Outgoing(key=None if number == BAD else b"%d" % number, value=b"%d" % number, partition=partition)
            for partition in range(PARTITIONS)
            for number in range(COUNT)
        ]
        write(source.bootstrap, self.topic, records)
        self.properties = {
            f"{self.a}.bootstrap.servers": source.bootstrap,
            f"{self.name}.enabled": "true",
            f"{self.name}.topics": f"{self.a}-.*",
            **{f"{self.name}.{key.replace('_', '.')}": value for key, value in settings.items()},
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


DAY_MS = 24 * 3600 * 1000
STRICT = {
    "message.max.bytes": "20000",
    "log.message.timestamp.before.max.ms": str(30 * DAY_MS),
    "log.cleanup.policy": "compact",
}
"""Defaults of a target's brokers that reject records that the source has accepted."""


class StrictFlow:
    """A flow with a topic for each reason why such a target rejects the second of three records."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster) -> None:
        self.source, self.target = source, target
        self.a, self.b = unique_name("A"), unique_name("C")
        self.name = f"{self.a}->{self.b}"
        self.large = self._topic("large", Outgoing(key=b"1", value=bytes(50_000)))
        self.synced = self._topic("synced", Outgoing(key=b"1", value=bytes(50_000)))
        self.past = self._topic("past", Outgoing(key=b"1", timestamp_ms=int(time.time() * 1000) - 90 * DAY_MS))
        self.keyless = self._topic("keyless", Outgoing(key=None))
        self.topics = (self.large, self.synced, self.past, self.keyless)
        self.properties = {
            f"{self.a}.bootstrap.servers": source.bootstrap,
            f"{self.b}.bootstrap.servers": target.bootstrap,
            f"{self.name}.enabled": "true",
            f"{self.name}.topics": f"{self.a}-.*",
            f"{self.name}.sync.topic.configs.enabled": "true",
            f"{self.name}.sync.topic.configs.interval.seconds": "1",
        }

    def _topic(self, stem: str, rejected: Outgoing) -> str:
        topic = self.source.create_topic(unique_name(f"{self.a}-{stem}"), config={"retention.ms": "-1"})
        write(self.source.bootstrap, topic, [Outgoing(key=b"0"), rejected, Outgoing(key=b"2")], records_per_batch=1)
        return topic

    def remote(self, topic: str) -> str:
        return f"{self.a}.{topic}"

    def wait_sync(self, bytes_: int) -> None:
        """Wait until a round of the sync that begins now has changed the remote topics: another config tells."""
        alter(self.source, self.synced, "retention.bytes", str(bytes_))
        wait_until(
            lambda: configs(self.target, self.remote(self.synced))["retention.bytes"] == (str(bytes_), True),
            SEEN,
            f"retention.bytes = {bytes_} is synced",
        )


@dataclass(frozen=True, slots=True)
class Stage:
    """Nodes with a flow that stops at such a record, one that writes it to the dead-letter topic, and one to a strict
    target. ``properties`` are those of the nodes."""

    nodes: tuple[Node, ...]
    properties: dict[str, str]
    stopping: Flow
    tolerant: Flow
    strict: StrictFlow


@pytest.fixture(scope="module")
def strict_cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster("strict", properties=STRICT) as cluster:
        yield cluster


# with a second node, another start of Spark; commands through any node: tests/unit/node/commands
@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.long)])
def stage(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, strict_cluster: KafkaCluster, request: pytest.FixtureRequest
) -> Iterator[Stage]:
    b = unique_name("B")
    stopping, tolerant = Flow(cluster_a, cluster_b, b), Flow(cluster_a, cluster_b, b, errors_tolerance="all")
    strict = StrictFlow(cluster_a, strict_cluster)
    properties = {
        "clusters": f"{stopping.a}, {tolerant.a}, {b}, {strict.a}, {strict.b}",
        f"{b}.bootstrap.servers": cluster_b.bootstrap,
        **stopping.properties,
        **tolerant.properties,
        **strict.properties,
        **ONE_COPY,
        "refresh.topics.interval.seconds": "1",
        "tasks.max": str(PARTITIONS),
        "mm2.lanes": "1",
        f"{b}.offset.flush.interval.ms": "1000",
        "mm2.rest.admin": "true",
        "mm2.rest.admin.token": TOKEN,
        "sync.topic.configs.enabled": "false",
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
    }
    with ExitStack() as ends:
        nodes = [ends.enter_context(Node(properties, name=f"n{number}")) for number in range(request.param)]
        yield Stage(tuple(nodes), properties, stopping, tolerant, strict)


GOOD = [b"%d" % number for number in range(COUNT) if number != BAD]


def skip(node: Node, flow: Flow, partition: int, offset: int) -> Any:
    words = ("--flow", flow.name, "--topic", flow.topic, "--partition", str(partition), "--offset", str(offset))
    return run("mm2", "skip", str(node.file), *words)


def test_a_record_is_skipped_through_any_node(stage: Stage) -> None:
    flow, nodes = stage.stopping, stage.nodes
    for node in nodes:
        node.wait_answering()
        wait_until(lambda: len(node.flow(flow.name).get("members", ())) == len(nodes), SEEN, "they share the flow")  # noqa: B023
        partitions = flow.wait_partitions(node, SEEN, state="FAILED", stopped_at=BAD, stopped_until=BAD + 1)
    assert all(f"offset {BAD} to {flow.remote}" in one["error"] for one in partitions)
    assert flow.remote_values() == [GOOD[:BAD]] * PARTITIONS

    wrong = skip(nodes[0], flow, 0, BAD - 1)
    assert wrong.code == 1
    assert f"{flow.topic}-0 is not stopped at this offset, but at offset {BAD}: " in wrong.stderr, wrong.stderr
    assert skip(nodes[0], flow, PARTITIONS, BAD).code == 2
    for number in range(PARTITIONS):
        outcome = skip(nodes[number % len(nodes)], flow, number, BAD)
        assert outcome.code == 0, outcome.stderr
        assert f"{flow.name}: skipping offset {BAD} of {flow.topic}-{number}, recorded as a loss" in outcome.stdout
    for node in nodes:
        flow.wait_partitions(node, SKIPPED, state="RUNNING", position=COUNT, stopped_at=None, error=None)
    assert flow.remote_values() == [GOOD] * PARTITIONS
    losses = nodes[0].flow(flow.name)["losses"]
    assert {(one["partition"], one["first"], one["until"], one["kind"]) for one in losses} == {
        (number, BAD, BAD + 1, "skipped") for number in range(PARTITIONS)
    }
    late = skip(nodes[-1], flow, 0, BAD + 1)
    assert f"{flow.topic}-0 is not stopped by a record that cannot be copied: it is RUNNING" in late.stderr

    def skips() -> object:
        records = read_topic(flow.target.bootstrap, f"mm2-configs.{flow.a}.internal")[0]
        newest = [record.value for record in records if record.key == b"mm2-skips"][-1]
        return json.loads(newest or b"")["skips"]

    wait_until(lambda: skips() == [], 90, "skips are forgotten after the offsets behind them are stored")


def test_dead_letters_of_a_node(stage: Stage) -> None:
    flow = stage.tolerant
    letters = f"mm2-dead-letters.{flow.a}.internal"
    for node in stage.nodes:
        flow.wait_partitions(node, SEEN, state="RUNNING", position=COUNT, error=None)
        assert not any(flow.name in reason for reason in node.health()["reasons"])
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
    counted = [node.metric("mm2_source_dead_letters_total", **labels, partition="0") for node in stage.nodes]
    assert sum(counted) == 1
    warning = f"cannot copy {flow.topic}-0 offset {BAD} to {flow.remote}-0: "
    lines = [line for node in stage.nodes for line in node.process.output().splitlines()]
    (found_warning,) = [line for line in lines if "WARNING" in line and warning in line]
    assert "written to" in found_warning
    assert letters in found_warning


def test_repairs_on_the_target_last(stage: Stage) -> None:
    """As docs/how-to/troubleshooting.md says, over two rounds of the sync of configurations."""
    flow, nodes = stage.strict, stage.nodes
    node = nodes[0]

    def partition(topic: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = node.topic(flow.name, topic).get("partitions", [])
        return found[0] if found else {}

    for topic, code, synced in (
        (flow.large, "MESSAGE_TOO_LARGE", "max.message.bytes"),
        (flow.past, "INVALID_TIMESTAMP", None),
        (flow.keyless, "INVALID_RECORD", "cleanup.policy"),
        (flow.synced, "MESSAGE_TOO_LARGE", "max.message.bytes"),
    ):
        wait_until(lambda: partition(topic).get("stopped_at") == 1, SEEN, f"{topic} is stopped at record 1")  # noqa: B023
        error = partition(topic)["error"]
        assert code in error, error
        assert synced is None or f"{flow.name}.config.properties.exclude must contain {synced}" in error, error

    alter(flow.source, flow.synced, "max.message.bytes", "100000")  # before it is excluded, as the sync repairs it here
    wait_until(
        lambda: configs(flow.target, flow.remote(flow.synced))["max.message.bytes"] == ("100000", True),
        SEEN,
        "max.message.bytes is synced",
    )
    listed = ", ".join((*SourceSettings().config_properties_exclude, "max.message.bytes", "cleanup.policy"))
    for one in nodes:
        one.rewrite(stage.properties | {f"{flow.name}.config.properties.exclude": listed})
        wait_until(lambda: "new configuration applied" in one.process.output(), SEEN, "the node has read its file")  # noqa: B023
    repairs = (
        (flow.large, "max.message.bytes", "100000"),
        (flow.past, "message.timestamp.before.max.ms", str(1_000 * DAY_MS)),
        (flow.keyless, "cleanup.policy", "delete"),
    )
    for topic, name, value in repairs:
        alter(flow.target, flow.remote(topic), name, value)
    flow.wait_sync(1_000_000)
    restarted = run("mm2", "restart", str(node.file), "MirrorSourceConnector-0", "--flow", flow.name)
    assert restarted.code == 0, restarted.stderr
    flow.wait_sync(2_000_000)
    for topic, name, value in repairs:
        assert configs(flow.target, flow.remote(topic))[name] == (value, True), topic
    for topic in flow.topics:
        wait_until(lambda: partition(topic).get("position") == 3, SKIPPED, f"{topic} is copied")  # noqa: B023
        assert partition(topic)["state"] == "RUNNING"
