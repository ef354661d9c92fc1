"""What real Java MirrorMaker 2 does with keys that are ignored here: one run with a flow for each key that is supposed
to change the copy, and flows with many that are not.

The result is in ``tests/golden/java-4.3.1-ignored-keys.json``, with which `tests/golden/test_java_ignored_keys.py`
compares our table. ``MM2_WRITE_RECORDED=1 pytest --long tests/parity/test_ignored_keys.py`` writes it.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from mm2.core.wire.formats import Checkpoint, FormatError
from tests.lab import jars, jvm, scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.groups import commit
from tests.lab.history import Partitions, count, read_topic
from tests.lab.java_mm2 import JavaMirrorMaker
from tests.lab.records import Outgoing, write
from tests.lab.settings import ONE_COPY
from tests.lab.verify import compare
from tests.lab.waiting import wait_until
from tests.parity.recorded import agrees

pytestmark = [
    pytest.mark.needs("javac"),  # for the interceptor
    pytest.mark.timeout(300),  # Java with eleven flows, on two cores
    pytest.mark.long,  # changes only with a new version of Kafka; tests/golden/test_java_ignored_keys.py
]

RECORDS = 40
SOON = 120.0  # seconds for Java to start eleven workers, one after the other, and to copy
QUIET = 15.0  # seconds without a change after which a flow of which nothing is known has done all it will
CONFIG_TIMEOUT = 30.0  # seconds
TOPIC, GROUP = "orders", "readers"
JSON = "org.apache.kafka.connect.json.JsonConverter"
STRINGS = "org.apache.kafka.common.serialization.StringSerializer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """A flow ``name``->``target`` with ``keys``, which are those of the flow, of its source or of its target."""

    name: str
    target: str = "T"
    flow: Mapping[str, str] = field(default_factory=dict)
    source: Mapping[str, str] = field(default_factory=dict)
    worker: Mapping[str, str] = field(default_factory=dict)

    def properties(self) -> dict[str, str]:
        prefix = f"{self.name}->{self.target}."
        return {
            f"{prefix}enabled": "true",
            **{f"{prefix}{key}": value for key, value in self.flow.items()},
            **{f"{self.name}.{key}": value for key, value in self.source.items()},
            **{f"{self.target}.{key}": value for key, value in self.worker.items()},
        }

    @property
    def keys(self) -> dict[str, str]:
        return {**self.flow, **self.source, **self.worker}


PLAIN = Flow(name="plain")
FLOWS = (
    PLAIN,
    Flow(
        name="worker",
        target="U",
        worker={
            "offset.flush.timeout.ms": "2000",
            "topic.creation.enable": "false",
            "topic.tracking.allow.reset": "false",
            "connect.protocol": "compatible",
            "worker.sync.timeout.ms": "2000",
            "connector.client.config.override.policy": "All",
            "metadata.recovery.strategy": "none",
            "socket.connection.setup.timeout.ms": "5000",
            "metrics.num.samples": "3",
        },
    ),
    Flow(
        name="connector",
        flow={
            "name": "mine",
            "errors.log.enable": "true",
            "errors.log.include.messages": "true",
            "errors.retry.timeout": "1000",
            "tasks.max.enforce": "false",
            "config.action.reload": "none",
            "consumer.poll.timeout.ms": "200",
            "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        },
    ),
    Flow(
        name="clients",
        flow={
            "producer.override.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
            "producer.override.partitioner.ignore.keys": "true",
            "producer.override.linger.ms": "20",
            "producer.override.max.block.ms": "30000",
            "producer.override.retries": "5",
        },
        source={
            "consumer.max.poll.records": "10",
            "consumer.group.id": "mine",
            "consumer.key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
            "consumer.enable.auto.commit": "true",
            "consumer.allow.auto.create.topics": "true",
        },
    ),
    Flow(name="values", flow={"value.converter": JSON}),
    Flow(name="keys", flow={"key.converter": JSON}),
    Flow(name="headers", flow={"header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"}),
    Flow(name="interceptor", flow={"producer.override.interceptor.classes": "Stamp"}),
    Flow(name="class", flow={"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}),
    Flow(
        name="transforms",
        flow={
            "transforms": "drop",
            "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
            "transforms.drop.predicate": "traced",
            "predicates": "traced",
            "predicates.traced.type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
            "predicates.traced.name": "trace",
        },
    ),
    Flow(name="serializer", flow={"producer.override.key.serializer": STRINGS}),
)
SOURCES = tuple(flow.name for flow in FLOWS)


def file(a: KafkaCluster, b: KafkaCluster) -> dict[str, str]:
    return {
        "clusters": ", ".join((*SOURCES, "T", "U")),
        **{f"{name}.bootstrap.servers": a.bootstrap for name in SOURCES},
        "T.bootstrap.servers": b.bootstrap,
        "U.bootstrap.servers": b.bootstrap,
        "topics": TOPIC,
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "offset-syncs.topic.location": "target",  # a topic of its own for each flow
        "T.offset.flush.interval.ms": "1000",
        "U.offset.flush.interval.ms": "1000",
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",
        **{key: value for flow in FLOWS for key, value in flow.properties().items()},
        **ONE_COPY,
    }


def differences(a: KafkaCluster, b: KafkaCluster, flow: Flow) -> list[str]:
    """Return what of the copy of ``flow`` is not what it is without its keys: copies, offsets, topic, checkpoints."""
    remote = f"{flow.name}.{TOPIC}"
    differs = {
        "records": not compare(read_topic(a.bootstrap, TOPIC), read_topic(b.bootstrap, remote)).exact,
        "offsets": offsets(b, flow)
        != {f'MirrorSourceConnector {TOPIC}-{n}: {{"offset":{RECORDS - 1}}}' for n in (0, 1)},
        "topics": configs(b, remote) != {"retention.ms": "7200000", "partitions": "2"},
        "groups": checkpoints(b, flow) != {(GROUP, TOPIC, n, RECORDS, RECORDS) for n in (0, 1)},
    }
    return [name for name, found in differs.items() if found]


def of_topic(cluster: KafkaCluster, topic: str) -> Partitions:
    return read_topic(cluster.bootstrap, topic) if topic in cluster.admin.list_topics(timeout=10).topics else {}


def offsets(b: KafkaCluster, flow: Flow) -> set[str]:
    """The last stored offset of each source partition, with the connector that stored it."""
    last: dict[str, str] = {}
    for records in of_topic(b, f"mm2-offsets.{flow.name}.internal").values():
        for record in records:
            connector, _, partition = (record.key or b"").decode().strip("[]").partition(",")
            if f'"topic":"{TOPIC}"' in partition and '"group"' not in partition:
                number = partition.partition('"partition":')[2][:1]
                last[f"{connector.strip(chr(34))} {TOPIC}-{number}"] = (record.value or b"").decode()
    return {f"{key}: {value}" for key, value in last.items()}


def configs(b: KafkaCluster, topic: str) -> dict[str, str]:
    found = b.admin.list_topics(timeout=10).topics.get(topic)
    if found is None:
        return {}
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = b.admin.describe_configs([resource])[resource].result(CONFIG_TIMEOUT)
    return {"retention.ms": entries["retention.ms"].value, "partitions": str(len(found.partitions))}


def checkpoints(b: KafkaCluster, flow: Flow) -> set[tuple[str, str, int, int, int]] | None:
    """The last checkpoint of each group and partition; None if one cannot be read."""
    found: dict[tuple[str, str, int], tuple[int, int]] = {}
    for record in of_topic(b, f"{flow.name}.checkpoints.internal").get(0, ()):
        try:
            one = Checkpoint.decode(record.content[0], record.content[1])
        except FormatError:
            return None
        topic = one.topic_partition.topic.removeprefix(f"{flow.name}.")
        found[one.group, topic, one.topic_partition.partition] = (one.upstream_offset, one.downstream_offset)
    return {(*key, *value) for key, value in found.items()}


def write_source(a: KafkaCluster) -> None:
    a.create_topic(TOPIC, 2, config={"retention.ms": "7200000"})
    now = int(time.time() * 1_000)
    records = (
        Outgoing(
            key=b"k\xc3%d" % number,
            value=b"caf\xc3 %d" % number,
            headers=(("trace", b"\x00\xff"),),
            timestamp_ms=now + number,
            partition=number % 2,
        )
        for number in range(2 * RECORDS)
    )
    write(a.bootstrap, TOPIC, records)
    commit(a, GROUP, {(TOPIC, number): RECORDS for number in (0, 1)})


def interceptor() -> Path:
    """Compile the interceptor and return its directory."""
    classes = scratch.directory("interceptor")
    source = Path(__file__).parent / "java" / "Stamp.java"
    command = (jvm.javac(), "-encoding", "utf-8", "-cp", jars.class_path(jars.KAFKA_4), "-d", str(classes), str(source))
    subprocess.run(command, timeout=SOON, check=True)
    return classes


def in_the_end(a: KafkaCluster, b: KafkaCluster) -> Iterator[dict[str, object]]:
    """Yield each flow, its keys and what differs."""
    for flow in FLOWS:
        yield {"flow": flow.name, "keys": flow.keys, "differs": differences(a, b, flow)}


def test_java_with_keys_that_are_ignored_here() -> None:
    with KafkaCluster("a") as a, KafkaCluster("b") as b:
        write_source(a)
        with JavaMirrorMaker(file(a, b), classes=interceptor()) as java:
            for flow in FLOWS[:4]:
                wait_until(
                    lambda flow=flow: differences(a, b, flow),  # type: ignore[misc]
                    SOON,
                    f"Java has copied {flow.name}",
                    accept=lambda found: not found,
                )
            seen: list[tuple[float, object]] = [(time.monotonic(), None)]

            def quiet() -> float:
                """How long nothing has changed."""
                state = [
                    (count(of_topic(b, f"{name}.{TOPIC}")), count(of_topic(b, f"{name}.checkpoints.internal")))
                    for name in SOURCES
                ]
                if state != seen[0][1]:
                    seen[0] = (time.monotonic(), state)
                return time.monotonic() - seen[0][0]

            wait_until(quiet, SOON, f"nothing changes for {QUIET:g} s", accept=lambda seconds: seconds >= QUIET)
            found = list(in_the_end(a, b))
            assert java.process.running
    agrees("ignored-keys", found, write=bool(os.environ.get("MM2_WRITE_RECORDED")))
