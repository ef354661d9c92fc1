from __future__ import annotations

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import Checkpoint, FormatError, Heartbeat, OffsetSync

SYNC = OffsetSync(topic_partition=TopicPartition("topic-1", 3), upstream_offset=100, downstream_offset=200)
CHECKPOINT = Checkpoint(
    group="g1", topic_partition=TopicPartition("A.t", 0), upstream_offset=10, downstream_offset=12, metadata=""
)
HEARTBEAT = Heartbeat(source="A", target="B", timestamp_ms=1_700_000_000_000)
RECORDS = (SYNC, CHECKPOINT, HEARTBEAT)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (SYNC, "0007746f7069632d3100000003", "000000000000006400000000000000c8"),
        (CHECKPOINT, "000267310003412e7400000000", "0000000000000000000a000000000000000c0000"),
        (HEARTBEAT, "000141000142", "00000000018bcfe56800"),
    ],
)
def test_vectors(record: OffsetSync | Checkpoint | Heartbeat, key: str, value: str) -> None:
    assert (record.key().hex(), record.value().hex()) == (key, value)
    assert type(record).decode(record.key(), record.value()) == record


@pytest.mark.parametrize("record", RECORDS)
def test_truncated_and_null_records_are_rejected(record: OffsetSync | Checkpoint | Heartbeat) -> None:
    key, value = record.key(), record.value()
    for length in range(len(key)):
        with pytest.raises(FormatError, match="key: "):
            type(record).decode(key[:length], value)
    for length in range(len(value)):
        with pytest.raises(FormatError, match="value: "):
            type(record).decode(key, value[:length])
    with pytest.raises(FormatError, match="key: it is null"):
        type(record).decode(None, value)
    with pytest.raises(FormatError, match="value: it is null"):
        type(record).decode(key, None)


@pytest.mark.parametrize("record", RECORDS)
def test_bytes_after_the_last_field_are_ignored(record: OffsetSync | Checkpoint | Heartbeat) -> None:
    assert type(record).decode(record.key() + b"x", record.value() + b"x") == record


def test_negative_length_is_rejected() -> None:
    with pytest.raises(FormatError, match="string of -1 bytes, but 4 bytes are left"):
        OffsetSync.decode(b"\xff\xff\0\0\0\0", SYNC.value())


@pytest.mark.parametrize("record", [CHECKPOINT, HEARTBEAT])
def test_future_versions_are_rejected(record: Checkpoint | Heartbeat) -> None:
    with pytest.raises(FormatError, match="version 1 is not supported"):
        type(record).decode(record.key(), b"\0\1" + record.value()[2:])


def test_invalid_utf8_is_decoded_as_in_java() -> None:
    assert Heartbeat.decode(b"\0\1\xff\0\1B", HEARTBEAT.value()).source == "\ufffd"
    assert Heartbeat(source="\ud800", target="B", timestamp_ms=0).key() == b"\0\1?\0\1B"


def test_values_out_of_range_are_rejected() -> None:
    with pytest.raises(FormatError, match="32768 bytes is too long"):
        Heartbeat(source="x" * 32_768, target="B", timestamp_ms=0).key()
    with pytest.raises(FormatError, match="does not fit"):
        Heartbeat(source="A", target="B", timestamp_ms=2**63).value()
