"""Checkpoints as other programs read and write them: the bytes of org.apache.kafka.connect.mirror.Checkpoint."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Producer

from tests.lab.cluster import KafkaCluster
from tests.lab.history import Record, read_topic

ACKNOWLEDGED = 30.0  # seconds for some ten thousand small records
VALUE = struct.Struct(">hqqh")  # version, upstream, downstream, length of the metadata

Bytes = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """``topic`` is the name on the target."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str = ""

    def encoded(self) -> Bytes:
        """Key and value."""
        key = _string(self.group) + _string(self.topic) + struct.pack(">i", self.partition)
        return key, struct.pack(">hqq", 0, self.upstream, self.downstream) + _string(self.metadata)


def read_checkpoints(target: KafkaCluster, topic: str, group: str) -> list[Checkpoint]:
    """Return the group's checkpoints in the order they were written, skipping other records."""
    found = [_decoded(record) for record in read_topic(target.bootstrap, topic).get(0, ())]
    return [one for one in found if one is not None and one.group == group]


def write_checkpoints(
    target: KafkaCluster, topic: str, records: Iterable[Checkpoint | Bytes], *, partition: int = 0
) -> None:
    """Write them in order; values that are not a `Checkpoint` are sent unchanged."""
    producer = Producer({"bootstrap.servers": target.bootstrap, "log_level": 0, "linger.ms": 5})
    for record in records:
        key, value = record.encoded() if isinstance(record, Checkpoint) else record
        producer.produce(topic, key=key, value=value, partition=partition)
    assert producer.flush(ACKNOWLEDGED) == 0


def going_back(checkpoints: list[Checkpoint]) -> list[tuple[Checkpoint, Checkpoint]]:
    """Return successive checkpoints whose target offset falls although the group did not step back; should be empty."""
    last: dict[tuple[str, int], Checkpoint] = {}
    wrong = []
    for one in checkpoints:
        before = last.get((one.topic, one.partition))
        if before is not None and one.downstream < before.downstream and one.upstream >= before.upstream:
            wrong.append((before, one))
        last[one.topic, one.partition] = one
    return wrong


def _decoded(record: Record) -> Checkpoint | None:
    key, value, *_ = record.content
    if key is None or value is None or len(value) < VALUE.size or value[:2] != b"\0\0":
        return None
    (length,) = struct.unpack_from(">h", key)
    group, rest = key[2 : 2 + length].decode(), key[2 + length :]
    (length,) = struct.unpack_from(">h", rest)
    topic, (partition,) = rest[2 : 2 + length].decode(), struct.unpack(">i", rest[2 + length :])
    _, upstream, downstream, length = VALUE.unpack_from(value)
    return Checkpoint(group, topic, partition, upstream, downstream, value[VALUE.size : VALUE.size + length].decode())


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded
