"""Records that cannot be copied, on nodes: ``mm2 skip`` through any node, the dead-letter topic, and the repairs of
docs/how-to/troubleshooting.md, which last while the node syncs configurations."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from mm2.config.keys.connector_keys import SourceSettings
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT, run
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
APPLIED = "new configuration applied"


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
    "log.segment.bytes": "1048576",
    "log.cleaner.min.compaction.lag.ms": str(DAY_MS),
}
"""Defaults of a target's brokers that reject records, and configurations of topics, that the source has accepted."""

ROWS = {
    row.split("`")[1]: row
    for row in (ROOT / "docs/how-to/troubleshooting.md").read_text("utf-8").splitlines()
    if row.startswith("| `")
}
"""The rows of tables in docs/how-to/troubleshooting.md, by the error in their first column."""


def says(error: str, *repair: str) -> None:
    """Require that the page tells this repair of an error."""
    assert [words for words in repair if words not in ROWS[error]] == [], ROWS[error]


class StrictFlow:
    """A flow with a topic for each reason why such a target rejects the second of three records."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster) -> None:
        self.source, self.target = source, target
        self.a, self.b = unique_name("A"), unique_name("C")
        self.name = f"{self.a}->{self.b}"
        self.rejected: dict[str, Outgoing] = {}
        self.large = self._topic("large", Outgoing(key=b"1", value=bytes(50_000)))
        self.synced = self._topic("synced", Outgoing(key=b"1", value=bytes(50_000)))
        self.past = self._topic("past", Outgoing(key=b"1", timestamp_ms=int(time.time() * 1000) - 90 * DAY_MS))
        self.keyless = self._topic("keyless", Outgoing(key=None))
        self.deleting = self._topic("deleting", Outgoing(key=None))
        self.segment = self._topic(
            "segment", Outgoing(key=b"1", value=bytes(1_500_000)), {"max.message.bytes": "3000000"}
        )
        self.wide = self._topic("wide", Outgoing(key=b"1", value=bytes(50_000)))
        self.properties = {
            f"{self.a}.bootstrap.servers": source.bootstrap,
            f"{self.b}.bootstrap.servers": target.bootstrap,
            f"{self.name}.enabled": "true",
            f"{self.name}.topics": f"{self.a}-.*",
            f"{self.name}.sync.topic.configs.enabled": "true",
            f"{self.name}.sync.topic.configs.interval.seconds": "1",
        }

    def _topic(self, stem: str, rejected: Outgoing, config: Mapping[str, str] = MappingProxyType({})) -> str:
        topic = self.source.create_topic(unique_name(f"{self.a}-{stem}"), config={"retention.ms": "-1", **config})
        self.rejected[topic] = rejected
        self._write(topic, Outgoing(key=b"0"), rejected, Outgoing(key=b"2"))
        return topic

    def _write(self, topic: str, *records: Outgoing) -> None:
        write(self.source.bootstrap, topic, records, records_per_batch=1, settings={"message.max.bytes": 3_000_000})

    def write_again(self, *topics: str) -> None:
        """Write another record like the one that was rejected."""
        for topic in topics:
            self._write(topic, self.rejected[topic])

    def keyless_topic(self, stem: str) -> str:
        return self._topic(stem, Outgoing(key=None))

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


def story(node: Node, flow: Flow, partition: int) -> dict[str, Any]:
    """Return the partition as ``mm2 status`` shows it, through this node."""
    words = ("--topic", flow.topic, "--partition", str(partition), "--json")
    outcome = run("mm2", "status", str(node.file), *words)
    assert outcome.code == 0, outcome.stderr
    found: dict[str, Any] = json.loads(outcome.stdout)
    return found


def wait_told(node: Node, flow: Flow, partition: int, text: str) -> None:
    """Wait until an event of the partition begins with ``text``."""
    wait_until(
        lambda: any(event["text"].startswith(text) for event in story(node, flow, partition)["events"]),
        SEEN,
        f"{text!r} is told of {partition}",
    )


def test_a_record_is_skipped_through_any_node(stage: Stage) -> None:
    flow, nodes = stage.stopping, stage.nodes
    for node in nodes:
        node.wait_answering()
        wait_until(lambda: len(node.flow(flow.name).get("members", ())) == len(nodes), SEEN, "they share the flow")  # noqa: B023
        partitions = flow.wait_partitions(node, SEEN, state="FAILED", stopped_at=BAD, stopped_until=BAD + 1)
    assert all(f"offset {BAD} to {flow.remote}" in one["error"] for one in partitions)
    assert flow.remote_values() == [GOOD[:BAD]] * PARTITIONS

    stopped = [story(node, flow, number) for node in nodes for number in range(PARTITIONS)]
    assert {one["step"] for one in stopped} == {"PAUSED"}
    assert all(one["status"]["error"] == one["fetching"]["reason"] == one["reason"] for one in stopped)
    assert all(one["events"][-1]["text"] == f"fetching: PAUSED: {one['reason']}" for one in stopped)

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
        assert {story(node, flow, number)["step"] for number in range(PARTITIONS)} == {"FETCHING"}
        wait_told(node, flow, 0, f"skipped: offset {BAD}: ")
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
        assert [reason for reason in node.health()["reasons"] if flow.name in reason] == []
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


@dataclass(slots=True)
class Repairing:
    """The flow to the strict target on a node that runs, and changes of its file."""

    stage: Stage

    excluded: tuple[str, ...] = (*SourceSettings().config_properties_exclude, "max.message.bytes", "cleanup.policy")

    @property
    def flow(self) -> StrictFlow:
        return self.stage.strict

    @property
    def node(self) -> Node:
        return self.stage.nodes[0]

    def topic(self, topic: str) -> dict[str, Any]:
        return self.node.topic(self.flow.name, topic)

    def partition(self, topic: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = self.topic(topic).get("partitions", [])
        return found[0] if found else {}

    def wait_stopped(self, topic: str, error: str) -> str:
        """Wait until the topic is stopped at record 1, and return why."""
        wait_until(lambda: self.partition(topic).get("stopped_at") == 1, SEEN, f"{topic} is stopped at record 1")
        found = str(self.partition(topic)["error"])
        assert error in found, found
        return found

    def wait_copied(self, *topics: str, records: int = 3) -> None:
        for topic in topics:
            wait_until(
                lambda: (
                    (self.partition(topic).get("state"), self.partition(topic).get("position"))  # noqa: B023
                    == ("RUNNING", records)
                ),
                SKIPPED,
                f"{topic} is copied",
            )

    def rewrite(self, **changes: str) -> None:
        """Change keys of the flow in the file of each node; they are named with underscores."""
        flow = self.flow.name
        self.stage.properties.update({f"{flow}.{key.replace('_', '.')}": value for key, value in changes.items()})
        for one in self.stage.nodes:
            seen = one.process.output().count(APPLIED)
            one.rewrite(self.stage.properties)
            wait_until(lambda: one.process.output().count(APPLIED) > seen, SEEN, "the node has read its file")  # noqa: B023

    def restart(self, *topics: str) -> None:
        """Retry now, as the page says; otherwise within 30 s."""
        for number in sorted({self.partition(topic)["source_task"] for topic in topics}):
            words = (f"MirrorSourceConnector-{number}", "--flow", self.flow.name)
            restarted = run("mm2", "restart", str(self.node.file), *words)
            assert restarted.code == 0, restarted.stderr


def test_repairs_of_rejected_records_last(stage: Stage) -> None:
    """As docs/how-to/troubleshooting.md says, over two rounds of the sync of configurations."""
    flow, on = stage.strict, Repairing(stage)
    for topic, code, synced in (
        (flow.large, "MESSAGE_TOO_LARGE", "max.message.bytes"),
        (flow.past, "INVALID_TIMESTAMP", None),
        (flow.keyless, "INVALID_RECORD", "cleanup.policy"),
        (flow.deleting, "INVALID_RECORD", "cleanup.policy"),
        (flow.synced, "MESSAGE_TOO_LARGE", "max.message.bytes"),
        (flow.segment, "RECORD_LIST_TOO_LARGE", None),
        (flow.wide, "MESSAGE_TOO_LARGE", "max.message.bytes"),
    ):
        error = on.wait_stopped(topic, code)
        assert synced is None or f"{flow.name}.config.properties.exclude must contain {synced}" in error, error

    on_source = (
        (flow.synced, "MESSAGE_TOO_LARGE", "max.message.bytes", "100000"),
        (flow.segment, "RECORD_LIST_TOO_LARGE", "segment.bytes", "4194304"),
        (flow.deleting, "INVALID_RECORD", "cleanup.policy", "delete"),
    )
    for topic, code, name, value in on_source:  # before they are excluded, as the sync repairs them here
        says(code, name, "source topic" if name != "segment.bytes" else "the same with")
        alter(flow.source, topic, name, value)
        wait_until(
            lambda: configs(flow.target, flow.remote(topic))[name] == (value, True),  # noqa: B023
            SEEN,
            f"{name} is synced",
        )
    excluded = ("max.message.bytes", "cleanup.policy")
    on.rewrite(config_properties_exclude=", ".join(on.excluded))
    on_target = (
        (flow.large, "MESSAGE_TOO_LARGE", "max.message.bytes", "100000"),
        (flow.past, "INVALID_TIMESTAMP", "message.timestamp.before.max.ms", str(1_000 * DAY_MS)),
        (flow.keyless, "INVALID_RECORD", "cleanup.policy", "delete"),
    )
    for topic, code, name, value in on_target:
        says(code, name, *(["A->B.config.properties.exclude"] if name in excluded else []))
        alter(flow.target, flow.remote(topic), name, value)
    flow.wait_sync(1_000_000)
    repaired = [topic for topic, *_ in (*on_source, *on_target)]
    on.restart(*repaired)
    flow.wait_sync(2_000_000)
    for topic, _, name, value in (*on_source, *on_target):
        assert configs(flow.target, flow.remote(topic))[name] == (value, True), topic
    on.wait_copied(*repaired)

    says("MESSAGE_TOO_LARGE", "message.max.bytes")
    assert on.partition(flow.wide)["stopped_at"] == 1
    alter_broker(flow.target, "message.max.bytes", "200000")
    on.restart(flow.wide)
    on.wait_copied(flow.wide)
    flow.wait_sync(2_100_000)
    flow.wait_sync(2_200_000)
    flow.write_again(*repaired, flow.wide)
    on.wait_copied(*repaired, flow.wide, records=4)


def test_repairs_of_refused_topics_last(stage: Stage) -> None:
    """The keys that let them through, or leave them out, in the file of a node that runs."""
    flow, on = stage.strict, Repairing(stage)
    on.rewrite(replication_factor="3")
    few = flow.keyless_topic("few")
    lagging = flow.source.create_topic(unique_name(f"{flow.a}-lagging"), config={"max.compaction.lag.ms": "1000"})
    named = flow.source.create_topic(f"{flow.a}-long-".ljust(249, "x"))
    missing = flow.source.create_topic(unique_name(f"{flow.b}-missing"))
    for topic, code, key in (
        (few, "INVALID_REPLICATION_FACTOR", "replication.factor"),
        (lagging, "INVALID_CONFIG", "config.properties.exclude"),
        (named, "INVALID_TOPIC_EXCEPTION", "topics.exclude"),
    ):
        wait_until(lambda: code in (on.topic(topic).get("error") or ""), SEEN, f"{topic} is refused: {code}")  # noqa: B023
        assert f"{flow.name}.{key}" in on.topic(topic)["error"]
        says(code, f"A->B.{key}")
    assert reason(on, missing) == f"not matched by topics: {flow.a}-.*"
    on.rewrite(
        replication_factor="1",
        config_properties_exclude=", ".join((*on.excluded, "max.compaction.lag.ms")),
        topics_exclude=", ".join((*SourceSettings().topics_exclude, named)),
        topics=f"{flow.a}-.*, {missing}",
        errors_tolerance="all",
    )
    assert run("mm2", "refresh", str(on.node.file), "--flow", flow.name).code == 0
    for topic in (few, lagging, missing):
        wait_until(lambda: on.topic(topic).get("state") == "RUNNING", SEEN, f"{topic} is replicated")  # noqa: B023
    on.wait_copied(few)
    flow.wait_sync(3_000_000)
    flow.wait_sync(4_000_000)
    assert configs(flow.target, flow.remote(lagging))["max.compaction.lag.ms"][1] is False
    assert on.topic(named) == {}
    assert reason(on, named).startswith("excluded by topics.exclude")
    letters = read_topic(flow.target.bootstrap, f"mm2-dead-letters.{flow.a}.internal")[0]
    assert [dict(one.headers)["__connect.errors.topic"] for one in letters] == [few.encode()], "errors.tolerance = all"


def reason(on: Repairing, topic: str) -> str:
    """Return why mm2 topics --all shows the source topic as not replicated."""
    words = ("--flow", on.flow.name, "--all", "--json")
    (flow,) = json.loads(run("mm2", "topics", str(on.node.file), *words).stdout)["flows"]
    (row,) = (one for one in flow["topics"] if one["topic"] == topic)
    return str(row["reason"])


def alter_broker(cluster: KafkaCluster, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    for future in cluster.admin.incremental_alter_configs(
        [ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])]
    ).values():
        future.result(30)
