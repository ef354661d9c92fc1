"""Binary records, JSON offsets and hashes, compared with those of Java's classes for strings of every kind."""

from __future__ import annotations

from typing import Any

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.connect_offsets import (
    CheckpointKey,
    HeartbeatKey,
    OffsetKey,
    SourceKey,
    decode_key,
    decode_offset,
    encode_key,
    encode_offset,
)
from mm2.core.wire.formats import Checkpoint, Heartbeat, OffsetSync
from mm2.core.wire.murmur2 import murmur2, partition_of
from tests.golden.vectors import java_vectors


def record_of(kind: str, fields: list[Any]) -> OffsetSync | Checkpoint | Heartbeat:
    match kind, fields:
        case "OffsetSync", [topic, partition, upstream, downstream]:
            at = TopicPartition(topic, partition)
            return OffsetSync(topic_partition=at, upstream_offset=upstream, downstream_offset=downstream)
        case "Checkpoint", [group, topic, partition, upstream, downstream, metadata]:
            return Checkpoint(
                group=group,
                topic_partition=TopicPartition(topic, partition),
                upstream_offset=upstream,
                downstream_offset=downstream,
                metadata=metadata,
            )
        case "Heartbeat", [source, target, timestamp_ms]:
            return Heartbeat(source=source, target=target, timestamp_ms=timestamp_ms)
    raise AssertionError(kind)


def test_binary_records() -> None:
    for vector in java_vectors("formats"):
        record = record_of(vector["record"], vector["fields"])
        key, value = bytes.fromhex(vector["key"]), bytes.fromhex(vector["value"])
        assert (record.key(), record.value()) == (key, value)
        assert type(record).decode(key, value) == record


def key_of(connector: str, entries: dict[str, Any]) -> OffsetKey:
    match connector:
        case "MirrorSourceConnector":
            return SourceKey(**entries)
        case "MirrorCheckpointConnector":
            return CheckpointKey(**entries)
        case _:
            return HeartbeatKey(source=entries["sourceClusterAlias"], target=entries["targetClusterAlias"])


def test_source_offsets() -> None:
    for vector in java_vectors("connect-offsets"):
        key = key_of(vector["connector"], vector["partition"])
        key_bytes, value_bytes = bytes.fromhex(vector["key"]), bytes.fromhex(vector["value"])
        assert encode_key(key) == key_bytes
        assert decode_key(key_bytes) == key
        assert encode_offset(vector["offset"]) == value_bytes
        assert decode_offset(value_bytes) == vector["offset"]
        assert partition_of(key_bytes, 25) == vector["of_25"]


def test_murmur2() -> None:
    for vector in java_vectors("murmur2"):
        key = bytes.fromhex(vector["key"])
        assert murmur2(key) == vector["hash"] % 2**32
        assert partition_of(key, 25) == vector["of_25"]
