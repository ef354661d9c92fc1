"""Records that Java MirrorMaker 2 4.3.1 wrote to its internal topics: decoding and encoding returns the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mm2.core.naming.names import Flow
from mm2.core.offsets.connect_offsets import decode_key, decode_offset, encode_key, encode_offset
from mm2.core.wire.formats import Checkpoint, Heartbeat, OffsetSync
from mm2.core.wire.murmur2 import partition_of
from mm2.core.wire.status_records import (
    CONNECTOR_PREFIX,
    TASK_PREFIX,
    connector_key,
    decode_status,
    decode_topic_use,
    encode_status,
    encode_topic_use,
    task_key,
    topic_key,
    worker_id,
)
from tests.golden.vectors import java_vectors

Bytes = tuple[bytes, bytes]
TOPICS: dict[str, Any] = java_vectors("internal-topics")["topics"]


def raw(field: dict[str, str]) -> bytes:
    return bytes.fromhex(field["hex"]) if "hex" in field else field["text"].encode()


def heartbeat(key: bytes, value: bytes) -> Bytes:
    record = Heartbeat.decode(key, value)
    return record.key(), record.value()


def offset_sync(key: bytes, value: bytes) -> Bytes:
    record = OffsetSync.decode(key, value)
    return record.key(), record.value()


def checkpoint(key: bytes, value: bytes) -> Bytes:
    record = Checkpoint.decode(key, value)
    return record.key(), record.value()


def source_offset(key: bytes, value: bytes) -> Bytes:
    offset = decode_offset(value)
    assert offset is not None
    return encode_key(decode_key(key)), encode_offset(offset)


def status(key: bytes, value: bytes) -> Bytes:
    name = key.decode()
    for prefix, key_of in ((CONNECTOR_PREFIX, connector_key), (TASK_PREFIX, task_key)):
        if name.startswith(prefix):
            found = decode_status(value)
            assert found is not None
            return key_of(name.removeprefix(prefix)), encode_status(found)
    use = decode_topic_use(value)
    assert use is not None
    return topic_key(use.topic, use.connector), encode_topic_use(use)


ROUND_TRIPS: dict[str, Callable[[bytes, bytes], Bytes]] = {
    "A:heartbeats": heartbeat,
    "B:heartbeats": heartbeat,
    "B:A.heartbeats": heartbeat,
    "A:mm2-offset-syncs.B.internal": offset_sync,
    "B:A.checkpoints.internal": checkpoint,
    "A:mm2-offsets.B.internal": source_offset,
    "B:mm2-offsets.A.internal": source_offset,
    "A:mm2-status.B.internal": status,
    "B:mm2-status.A.internal": status,
}


@pytest.mark.parametrize("topic", ROUND_TRIPS)
def test_records_round_trip_to_the_same_bytes(topic: str) -> None:
    records = TOPICS[topic]["records"]
    assert records
    for record in records:
        key, value = raw(record["key"]), raw(record["value"])
        assert ROUND_TRIPS[topic](key, value) == (key, value)


@pytest.mark.parametrize("topic", TOPICS)
def test_partition_of_each_key(topic: str) -> None:
    for record in TOPICS[topic]["records"]:
        assert partition_of(raw(record["key"]), TOPICS[topic]["partitions"]) == record["partition"]


def test_every_internal_topic_is_covered() -> None:
    """Except the configs topics: only Java's herder writes their records."""
    others = {topic for topic in TOPICS if topic not in ROUND_TRIPS}
    assert all(topic.split(":")[1].startswith("mm2-configs.") for topic in others)


def test_worker_ids_have_the_format_of_java() -> None:
    record = TOPICS["B:mm2-status.A.internal"]["records"][0]
    found = decode_status(raw(record["value"]))
    assert found is not None
    host, _, unique = found.worker_id.split("/")
    assert found.worker_id == worker_id(host, Flow("A", "B"), unique)
