"""Every record round-trips, and random bytes raise a format error only."""

from __future__ import annotations

import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

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
from mm2.core.wire.formats import Checkpoint, FormatError, Heartbeat, OffsetSync

TEXTS = st.text(max_size=40)
INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PARTITIONS = st.builds(TopicPartition, TEXTS, INT32)
RECORDS: st.SearchStrategy[OffsetSync | Checkpoint | Heartbeat] = st.one_of(
    st.builds(OffsetSync, topic_partition=PARTITIONS, upstream_offset=INT64, downstream_offset=INT64),
    st.builds(
        Checkpoint,
        group=TEXTS,
        topic_partition=PARTITIONS,
        upstream_offset=INT64,
        downstream_offset=INT64,
        metadata=TEXTS,
    ),
    st.builds(Heartbeat, source=TEXTS, target=TEXTS, timestamp_ms=INT64),
)
KEYS: st.SearchStrategy[OffsetKey] = st.one_of(
    st.builds(SourceKey, cluster=TEXTS, topic=TEXTS, partition=INT32, connector=TEXTS),
    st.builds(CheckpointKey, group=TEXTS, topic=TEXTS, partition=INT32, connector=TEXTS),
    st.builds(HeartbeatKey, source=TEXTS, target=TEXTS, connector=TEXTS),
)


@given(record=RECORDS)
def test_binary_records_round_trip(record: OffsetSync | Checkpoint | Heartbeat) -> None:
    assert type(record).decode(record.key(), record.value()) == record


@given(key=KEYS, rewrite=st.booleans())
def test_offset_keys_round_trip_in_every_json_form(key: OffsetKey, rewrite: bool) -> None:
    raw = encode_key(key)
    if rewrite:
        raw = json.dumps(json.loads(raw), indent=1, sort_keys=True).encode()
    assert decode_key(raw) == key


@given(offset=st.integers(-1, 2**63 - 1))
def test_offsets_round_trip(offset: int) -> None:
    assert decode_offset(encode_offset(offset)) == offset


@given(key=st.none() | st.binary(max_size=40), value=st.none() | st.binary(max_size=40))
def test_random_bytes_are_a_format_error(key: bytes | None, value: bytes | None) -> None:
    for record_type in (OffsetSync, Checkpoint, Heartbeat):
        with suppress(FormatError):
            record_type.decode(key, value)
    with suppress(FormatError):
        decode_key(key)
    with suppress(FormatError):
        decode_offset(value)
