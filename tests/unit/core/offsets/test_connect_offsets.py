from __future__ import annotations

import pytest

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
from mm2.core.wire.formats import FormatError

SOURCE = SourceKey(cluster="A", topic="orders", partition=0)


@pytest.mark.parametrize(
    ("key", "raw"),
    [
        (SOURCE, '["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"orders"}]'),
        (
            CheckpointKey(group="g1", topic="A.orders", partition=0),
            '["MirrorCheckpointConnector",{"partition":0,"topic":"A.orders","group":"g1"}]',
        ),
        (
            HeartbeatKey(source="A", target="B"),
            '["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]',
        ),
        (
            SourceKey(cluster="é\U0001f600", topic='"\\\x1b\n\x7f', partition=1, connector="own name"),
            '["own name",{"cluster":"é\\uD83D\\uDE00","partition":1,"topic":"\\"\\\\\\u001B\\n\x7f"}]',
        ),
    ],
)
def test_encoded_keys(key: OffsetKey, raw: str) -> None:
    assert encode_key(key) == raw.encode()
    assert decode_key(raw.encode()) == key


def test_json_notation_of_keys_does_not_matter() -> None:
    raw = b'[ "MirrorSourceConnector", {"topic":"orders", "more":[], "partition":0, "cluster":"A"} ]'
    assert decode_key(raw) == SOURCE


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"",
        b"\xff",
        b"nothing",
        b"[" * 100_000,
        b"{}",
        b'["c",{"cluster":"A","topic":"t"}]',
        b'["c",{"cluster":"A","topic":"t","partition":"0"}]',
        b'["c",{"cluster":"A","topic":"t","partition":0.0}]',
        b'["c",{"cluster":"A","topic":"t","partition":true}]',
        b'["c",{"cluster":"A","topic":"t","partition":-1}]',
        b'["c",{"group":"g","topic":"t","partition":2147483648}]',
        b'[1,{"cluster":"A","topic":"t","partition":0}]',
        b'["c",{"sourceClusterAlias":"A"}]',
    ],
    ids=lambda raw: repr(raw)[:60],
)
def test_invalid_keys_are_rejected(raw: bytes | None) -> None:
    with pytest.raises(FormatError, match="read offset key: "):
        decode_key(raw)


@pytest.mark.parametrize(
    ("raw", "offset"),
    [
        (b'{"offset":41}', 41),
        (b' { "more" : 1 , "offset" : -1 } ', -1),
        (b'{"offset":9223372036854775807}', 2**63 - 1),
        (b'{"offset":null}', None),
        (b"{}", None),
        (b"null", None),
        (None, None),
    ],
)
def test_values(raw: bytes | None, offset: int | None) -> None:
    assert decode_offset(raw) == offset


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b'{"offset":"41"}', b'{"offset":1.5}', b'{"offset":true}', b'{"offset":9223372036854775808}', b"1"],
)
def test_invalid_values_are_rejected(raw: bytes) -> None:
    with pytest.raises(FormatError, match="read offset value: "):
        decode_offset(raw)


def test_encoded_offsets_as_in_java() -> None:
    assert encode_offset(41) == b'{"offset":41}'
    assert decode_offset(encode_offset(41)) == 41
