"""Keys and values of ``mm2-offsets.*``: how far a Connect source task has come (mm2-compat §2.3).

    source       ["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"orders"}]             {"offset":41}
    checkpoint   ["MirrorCheckpointConnector",{"partition":0,"topic":"A.orders","group":"g1"}]        {"offset":0}
    heartbeat    ["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]     {"offset":0}

Java looks an offset up by the bytes of its key, so ours are the same to the byte: JSON without blanks, the entries in
the order of Java's HashMap, texts as in `jackson`. Reading is tolerant of another order, blanks, further entries and
another connector name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from mm2.core.formats import FormatError
from mm2.core.jackson import quoted

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKey:
    """One source partition of cluster ``cluster``."""

    cluster: str
    topic: str
    partition: int
    connector: str = "MirrorSourceConnector"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointKey:
    """One partition (``topic`` by its name on the target) of one consumer group; its offset is always 0."""

    group: str
    topic: str
    partition: int
    connector: str = "MirrorCheckpointConnector"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatKey:
    """The heartbeats of flow ``source``->``target``; its offset is always 0."""

    source: str
    target: str
    connector: str = "MirrorHeartbeatConnector"


OffsetKey = SourceKey | CheckpointKey | HeartbeatKey


def encode_key(key: OffsetKey) -> bytes:
    """The record key as Java writes it."""
    if isinstance(key, SourceKey):
        entries = f'"cluster":{quoted(key.cluster)},"partition":{key.partition},"topic":{quoted(key.topic)}'
    elif isinstance(key, CheckpointKey):
        entries = f'"partition":{key.partition},"topic":{quoted(key.topic)},"group":{quoted(key.group)}'
    else:
        entries = f'"sourceClusterAlias":{quoted(key.source)},"targetClusterAlias":{quoted(key.target)}'
    return f"[{quoted(key.connector)},{{{entries}}}]".encode()


def decode_key(raw: bytes | None) -> OffsetKey:
    """Read a record key. Raises FormatError where it is none of the three kinds."""
    match _json("offset key", raw):
        case [str(connector), {"cluster": str(cluster), "topic": str(topic), "partition": int(partition)}]:
            return SourceKey(connector=connector, cluster=cluster, topic=topic, partition=_checked(partition))
        case [str(connector), {"group": str(group), "topic": str(topic), "partition": int(partition)}]:
            return CheckpointKey(connector=connector, group=group, topic=topic, partition=_checked(partition))
        case [str(connector), {"sourceClusterAlias": str(source), "targetClusterAlias": str(target)}]:
            return HeartbeatKey(connector=connector, source=source, target=target)
    raise FormatError(f"read offset key: it is no source, checkpoint or heartbeat key: {raw!r:.200}")


def encode_offset(offset: int) -> bytes:
    """The record value for ``offset``, the last one done."""
    return b'{"offset":%d}' % offset


def decode_offset(raw: bytes | None) -> int | None:
    """The last offset done; None where the record takes it back (null) or holds none. Raises FormatError."""
    if raw is None:
        return None
    match _json("offset value", raw):
        case {"offset": int(offset)} if not isinstance(offset, bool) and abs(offset) <= _INT64_MAX:
            return offset
        case None:
            return None
        case dict(entries) if entries.get("offset") is None:
            return None
    raise FormatError(f"read offset value: it holds no offset: {raw!r:.200}")


def _checked(partition: int) -> int:
    if isinstance(partition, bool) or not 0 <= partition <= _INT32_MAX:
        raise FormatError(f"read offset key: partition {partition} is no partition number")
    return partition


def _json(what: str, raw: bytes | None) -> object:
    if raw is None:
        raise FormatError(f"read {what}: it is null")
    try:
        parsed: object = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"read {what}: {error}: {raw!r:.200}") from None
    return parsed
