"""Every row of the tables of old properties: what a line means, or which message it gets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mm2.config.mirror1.old_keys import CONSUMER as CONSUMER_KEYS
from mm2.config.mirror1.old_keys import PRODUCER as PRODUCER_KEYS
from mm2.config.mirror1.old_keys import OwnMeaning
from mm2.core.mirror1.settings import MirrorSettings
from mm2.core.settings.client import OffsetReset
from tests.unit.config.mirror1.files import CONSUMER, PRODUCER, loaded, messages, settings

NO_EFFECT = "has no effect: "


def fetch(name: str) -> Callable[[MirrorSettings], object]:
    return lambda found: getattr(found.consumers[0].fetch, name)


def source(name: str) -> Callable[[MirrorSettings], object]:
    return lambda found: getattr(found.consumers[0].client, name)


def produce(name: str) -> Callable[[MirrorSettings], object]:
    return lambda found: getattr(found.produce, name)


def target(name: str) -> Callable[[MirrorSettings], object]:
    return lambda found: getattr(found.target, name)


RENAMED_OF_CONSUMER = [
    ("autooffset.reset=smallest", "auto.offset.reset", fetch("auto_offset_reset"), OffsetReset.EARLIEST),
    ("autooffset.reset=largest", "auto.offset.reset", fetch("auto_offset_reset"), OffsetReset.LATEST),
    ("fetch.message.max.bytes=5", "max.partition.fetch.bytes", fetch("max_partition_bytes"), 5),
    ("fetch.size=5", "max.partition.fetch.bytes", fetch("max_partition_bytes"), 5),
    ("fetch.wait.max.ms=7", "fetch.max.wait.ms", fetch("max_wait_ms"), 7),
    ("offsets.channel.backoff.ms=7", "retry.backoff.ms", source("retry_backoff_ms"), 7),
    ("offsets.channel.socket.timeout.ms=7", "request.timeout.ms", source("request_timeout_ms"), 7),
    ("refresh.leader.backoff.ms=7", "retry.backoff.ms", source("retry_backoff_ms"), 7),
    ("socket.timeout.ms=7", "request.timeout.ms", source("request_timeout_ms"), 7),
]
RENAMED_OF_PRODUCER = [
    ("compression.codec=0", "compression.type", produce("compression_type"), "none"),
    ("compression.codec=1", "compression.type", produce("compression_type"), "gzip"),
    ("compression.codec=2", "compression.type", produce("compression_type"), "snappy"),
    ("compression.codec=3", "compression.type", produce("compression_type"), "lz4"),
    ("compression.codec=gzip", "compression.type", produce("compression_type"), "gzip"),
    ("max.message.size=7000", "max.request.size", produce("max_request_size"), 7000),
    ("request.required.acks=1", "acks", produce("acks"), 1),
    ("request.required.acks=-1", "acks", produce("acks"), -1),
    ("socket.timeout.ms=7", "request.timeout.ms", target("request_timeout_ms"), 7),
    ("timeout.ms=7", "request.timeout.ms", target("request_timeout_ms"), 7),
    ("topic.metadata.refresh.interval.ms=7", "metadata.max.age.ms", target("metadata_max_age_ms"), 7),
    ("topic.metadata.refresh.interval.ms=-1", "metadata.max.age.ms", target("metadata_max_age_ms"), 300_000),
]

WITHOUT_EFFECT_OF_CONSUMER = {
    "auto.commit.enable=true": "offsets are committed after",
    "auto.commit.interval.ms=5": "offsets are committed after",
    "autocommit.enable=true": "offsets are committed after",
    "autocommit.interval.ms=5": "offsets are committed after",
    "backoff.increment.ms=5": "a broker holds back the answer",
    "client.id=x": "client IDs are made of group.id",
    "consumer.id=x": "brokers choose the IDs",
    "consumer.timeout.ms=5": "streams wait for records without limit",
    "consumerid=x": "brokers choose the IDs",
    "dual.commit.enabled=true": "offsets are committed to Kafka only",
    "enable.auto.commit=true": "offsets are committed after",
    "fetcher.backoff.ms=5": "a broker holds back the answer",
    "key.deserializer=org.apache.kafka.common.serialization.StringDeserializer": "keys and values are copied as bytes",
    "num.consumer.fetchers=2": "each stream fetches",
    "offsets.commit.max.retries=2": "errors that can be retried",
    "queued.max.message.chunks=2": "the bytes between fetch and acknowledgement",
    "queuedchunks.max=2": "the bytes between fetch and acknowledgement",
    "rebalance.backoff.ms=2": "brokers coordinate the group",
    "rebalance.max.retries=2": "brokers coordinate the group",
    "rebalance.retries.max=2": "brokers coordinate the group",
    "shallow.iterator.enable=true": "batches are copied without decompressing",
    "shallowiterator.enable=true": "batches are copied without decompressing",
    "value.deserializer=com.acme.Thing": "keys and values are copied as bytes",
    "zk.connectiontimeout.ms=1": "ZooKeeper is only asked",
    "zk.sessiontimeout.ms=1": "ZooKeeper is only asked",
    "zk.synctime.ms=1": "ZooKeeper is only asked",
    "zookeeper.connect=z:2181": "bootstrap.servers is set",
    "zk.connect=z:2181": "bootstrap.servers is set",
    "zookeeper.connection.timeout.ms=1": "ZooKeeper is only asked",
    "zookeeper.session.timeout.ms=1": "ZooKeeper is only asked",
    "zookeeper.sync.time.ms=1": "ZooKeeper is only asked",
}
WITHOUT_EFFECT_OF_PRODUCER = {
    "batch.num.messages=200": "batches are limited in bytes",
    "block.on.buffer.full=false": "fetching pauses",
    "compressed.topics=a": "compression.type applies to all topics",
    "connect.timeout.ms=1": "request.timeout.ms also limits",
    "key.serializer=org.apache.kafka.common.serialization.StringSerializer": "keys and values are copied",
    "key.serializer.class=kafka.serializer.StringEncoder": "keys and values are copied",
    "message.send.max.retries=3": "errors that can be retried",
    "metadata.fetch.timeout.ms=3": "fetching pauses",
    "num.retries=3": "errors that can be retried",
    "partitioner.class=com.acme.P": "Java classes cannot be loaded",
    "producer.type=sync": "several batches are in flight",
    "queue.buffering.max.messages=3": "the bytes between fetch and acknowledgement",
    "queue.buffering.max.ms=3": "small batches are merged",
    "queue.enqueue.timeout.ms=0": "fetching pauses",
    "queue.enqueueTimeout.ms=0": "fetching pauses",
    "queue.size=3": "the bytes between fetch and acknowledgement",
    "queue.time=3": "small batches are merged",
    "reconnect.interval=3": "connections are kept open",
    "reconnect.time.interval.ms=3": "connections are kept open",
    "retries=3": "errors that can be retried",
    "serializer.class=kafka.serializer.StringEncoder": "keys and values are copied",
    "value.serializer=com.acme.S": "keys and values are copied",
    "zk.connect=z:2181": "bootstrap.servers is set",
    "zk.connectiontimeout.ms=1": "ZooKeeper is only asked",
    "zk.read.num.retries=3": "ZooKeeper is only asked",
    "zk.sessiontimeout.ms=1": "ZooKeeper is only asked",
    "zk.synctime.ms=1": "ZooKeeper is only asked",
    "zookeeper.connect=z:2181": "bootstrap.servers is set",
    "zookeeper.connection.timeout.ms=1": "ZooKeeper is only asked",
    "zookeeper.session.timeout.ms=1": "ZooKeeper is only asked",
    "zookeeper.sync.time.ms=1": "ZooKeeper is only asked",
}
SOCKET_BUFFERS = {
    "socket.buffersize": "receive.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "buffer.size": "send.buffer.bytes",
}
"""Old names, and those of today."""

HARMLESS_OF_CONSUMER = (
    "auto.commit.enable=false",
    "consumer.timeout.ms=-1",
    "dual.commit.enabled=false",
    "enable.auto.commit=false",
    "group.protocol=classic",
    "key.deserializer=org.apache.kafka.common.serialization.ByteArrayDeserializer",
    "offsets.storage=kafka",
    "partition.assignment.strategy=range",
)
HARMLESS_OF_PRODUCER = (
    "block.on.buffer.full=true",
    "compressed.topics=",
    "key.serializer=org.apache.kafka.common.serialization.ByteArraySerializer",
    "partitioner.class=kafka.producer.DefaultPartitioner",
    "producer.type=async",
    "queue.enqueueTimeout.ms=-1",
    "retries=2147483647",
    "serializer.class=kafka.serializer.DefaultEncoder",
)
REFUSED_OF_CONSUMER = {
    "group.protocol=consumer": "must be classic",
    "offsets.storage=disk": "must be zookeeper or kafka",
    "offsets.storage=zookeeper": "offsets are read from ZooKeeper only with zookeeper.connect",
    "partition.assignment.strategy=sticky": "has no assignor that is supported here",
}
REFUSED_OF_PRODUCER = {
    "callback.handler=a.B": "Java classes cannot be loaded",
    "callback.handler.props=x": "Java classes cannot be loaded",
    "event.handler=a.B": "Java classes cannot be loaded",
    "event.handler.props=x": "Java classes cannot be loaded",
}

OTHERS = {*SOCKET_BUFFERS, "groupid", "bootstrap.servers", "broker.list", "metadata.broker.list"}
"""Tested below: some replace a line of the files."""


def key(line: str) -> str:
    return line.partition("=")[0]


def test_every_row_is_tested() -> None:
    consumer = [*(row[0] for row in RENAMED_OF_CONSUMER), *WITHOUT_EFFECT_OF_CONSUMER, *REFUSED_OF_CONSUMER]
    producer = [*(row[0] for row in RENAMED_OF_PRODUCER), *WITHOUT_EFFECT_OF_PRODUCER, *REFUSED_OF_PRODUCER]
    for table, lines in ((CONSUMER_KEYS, consumer), (PRODUCER_KEYS, producer)):
        rows = {name for name, old in table.items() if not isinstance(old, OwnMeaning)}
        assert rows - {key(line) for line in lines} - OTHERS == set()


@pytest.mark.parametrize(("line", "name", "value", "expected"), RENAMED_OF_CONSUMER)
def test_old_name_of_consumer(
    line: str, name: str, value: Callable[[MirrorSettings], object], expected: object, tmp_path: Path
) -> None:
    found = loaded(tmp_path, line)
    assert found.settings is not None
    assert value(found.settings) == expected
    assert messages(found) == [f"consumer.properties:3: warning: {line.replace('=', ' = ')}: old name of {name}"]


@pytest.mark.parametrize(("line", "name", "value", "expected"), RENAMED_OF_PRODUCER)
def test_old_name_of_producer(
    line: str, name: str, value: Callable[[MirrorSettings], object], expected: object, tmp_path: Path
) -> None:
    found = loaded(tmp_path, "", line)
    assert found.settings is not None
    assert value(found.settings) == expected
    assert messages(found) == [f"producer.properties:2: warning: {line.replace('=', ' = ')}: old name of {name}"]


@pytest.mark.parametrize(("line", "why"), WITHOUT_EFFECT_OF_CONSUMER.items(), ids=str)
def test_no_effect_in_consumer(line: str, why: str, tmp_path: Path) -> None:
    found = loaded(tmp_path, line)
    assert found.settings is not None
    message = messages(found)[-1]
    assert message.startswith(f"consumer.properties:3: warning: {line.replace('=', ' = ')}: {NO_EFFECT}{why}")


@pytest.mark.parametrize(("line", "why"), WITHOUT_EFFECT_OF_PRODUCER.items(), ids=str)
def test_no_effect_in_producer(line: str, why: str, tmp_path: Path) -> None:
    found = loaded(tmp_path, "", line)
    assert found.settings is not None
    message = messages(found)[-1]
    assert message.startswith(f"producer.properties:2: warning: {line.replace('=', ' = ')}: {NO_EFFECT}{why}")


@pytest.mark.parametrize("line", HARMLESS_OF_CONSUMER)
def test_harmless_in_consumer(line: str, tmp_path: Path) -> None:
    found = loaded(tmp_path, line)
    assert found.settings is not None
    assert messages(found) == []


@pytest.mark.parametrize("line", HARMLESS_OF_PRODUCER)
def test_harmless_in_producer(line: str, tmp_path: Path) -> None:
    found = loaded(tmp_path, "", line)
    assert found.settings is not None
    assert messages(found) == []


@pytest.mark.parametrize(("line", "rule"), REFUSED_OF_CONSUMER.items(), ids=str)
def test_refused_in_consumer(line: str, rule: str, tmp_path: Path) -> None:
    found = loaded(tmp_path, line)
    assert found.settings is None
    assert messages(found)[0].startswith(f"consumer.properties:3: error: {line.replace('=', ' = ')}: {rule}")


@pytest.mark.parametrize(("line", "rule"), REFUSED_OF_PRODUCER.items(), ids=str)
def test_refused_in_producer(line: str, rule: str, tmp_path: Path) -> None:
    found = loaded(tmp_path, "", line)
    assert found.settings is None
    assert messages(found)[0].startswith(f"producer.properties:2: error: {line.replace('=', ' = ')}: {rule}")


@pytest.mark.parametrize(("old", "new"), SOCKET_BUFFERS.items())
def test_socket_buffers(old: str, new: str, tmp_path: Path) -> None:
    line, number = f"{old}=65536\n", 2 if old == "buffer.size" else 3
    found = loaded(tmp_path, "", line) if old == "buffer.size" else loaded(tmp_path, line)
    assert found.settings is not None
    assert messages(found)[0].endswith(f".properties:{number}: warning: {old} = 65536: old name of {new}")


def test_group_of_kafka_0_7(tmp_path: Path) -> None:
    found = loaded(tmp_path, start=("bootstrap.servers=a:9092\ngroupid=old\n", PRODUCER))
    assert found.settings is not None
    assert found.settings.consumers[0].group.group_id == "old"
    assert messages(found) == ["consumer.properties:2: warning: groupid = old: old name of group.id"]


@pytest.mark.parametrize(
    ("line", "servers"),
    [
        ("broker.list=0:b1:9092, 1:b2:9093", ("b1:9092", "b2:9093")),
        ("broker.list=b1:9092", ("b1:9092",)),
        ("metadata.broker.list=b1:9092,b2:9092", ("b1:9092", "b2:9092")),
    ],
)
def test_brokers_of_old_producers(line: str, servers: tuple[str, ...], tmp_path: Path) -> None:
    assert settings(tmp_path, start=(CONSUMER, f"{line}\n")).target.bootstrap_servers == servers


@pytest.mark.parametrize("old", ["metadata.broker.list=b:9092", "serializer.class=kafka.serializer.DefaultEncoder"])
def test_batch_size_of_old_producers_is_a_number_of_records(old: str, tmp_path: Path) -> None:
    lines = f"{old}\nbootstrap.servers=b:9092\nbatch.size=200\n"
    found = loaded(tmp_path, start=(CONSUMER, lines))
    assert found.settings is not None
    assert found.settings.produce.batch_size == 16_384
    assert messages(found)[-1] == (
        "producer.properties:3: warning: batch.size = 200: has no effect: batches are limited in bytes"
    )
    assert settings(tmp_path, "", "batch.size=200").produce.batch_size == 200


@pytest.mark.parametrize(("text", "expected"), [("smallest", OffsetReset.EARLIEST), ("largest", OffsetReset.LATEST)])
def test_old_value_under_todays_name(text: str, expected: OffsetReset, tmp_path: Path) -> None:
    found = loaded(tmp_path, f"auto.offset.reset={text}")
    assert found.settings is not None
    assert found.settings.consumers[0].fetch.auto_offset_reset is expected
    assert messages(found) == [
        f"consumer.properties:3: warning: auto.offset.reset = {text}: old value, read as {expected}"
    ]


@pytest.mark.parametrize(
    ("lines", "ignored"),
    [
        ("groupid=old\n", "groupid = old: has no effect: group.id is set"),
        (
            "fetch.size=1\nfetch.message.max.bytes=2\n",
            "fetch.size = 1: has no effect: max.partition.fetch.bytes is set",
        ),
    ],
)
def test_todays_name_wins_and_then_the_later_line(lines: str, ignored: str, tmp_path: Path) -> None:
    found = loaded(tmp_path, lines)
    assert found.settings is not None
    assert messages(found)[0] == f"consumer.properties:3: warning: {ignored}"
    assert found.settings.consumers[0].group.group_id == "mirror"
    if "fetch" in lines:
        assert found.settings.consumers[0].fetch.max_partition_bytes == 2
