"""Keys and values of ``mm2-offsets.*``: the source offsets of a Connect source task.

    source       ["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"orders"}]             {"offset":41}
    checkpoint   ["MirrorCheckpointConnector",{"partition":0,"topic":"A.orders","group":"g1"}]        {"offset":0}
    heartbeat    ["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]     {"offset":0}

Java looks up an offset by the bytes of its key, so these keys are byte-identical: JSON without spaces, entries in the
order of Java's HashMap, strings as in `jackson`. Decoding accepts a different order, spaces, additional entries and
other connector names.
"""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.wire.formats import FormatError
from mm2.core.wire.jackson import quoted
from mm2.core.wire.json_bytes import decode_json

RECREATED_TOPIC = -2
"""Stored for a recreated topic before anything of it is copied: the partition starts at its beginning.

-1 is stored for a partition that starts at offset 0 for any other reason. Java treats each negative offset like a
missing one (MirrorSourceTask.isUncommitted).
"""

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
    """One partition of one consumer group; ``topic`` is the name on the target. Its offset is always 0."""

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
    """Return the record key as Java writes it."""
    if isinstance(key, SourceKey):
        entries = f'"cluster":{quoted(key.cluster)},"partition":{key.partition},"topic":{quoted(key.topic)}'
    elif isinstance(key, CheckpointKey):
        entries = f'"partition":{key.partition},"topic":{quoted(key.topic)},"group":{quoted(key.group)}'
    else:
        entries = f'"sourceClusterAlias":{quoted(key.source)},"targetClusterAlias":{quoted(key.target)}'
    return f"[{quoted(key.connector)},{{{entries}}}]".encode()


def decode_key(raw: bytes | None) -> OffsetKey:
    """Read a record key. Raises FormatError if it is none of the three kinds."""
    match decode_json(raw, "offset key", surrogates=True):
        case [str(connector), {"cluster": str(cluster), "topic": str(topic), "partition": int(partition)}]:
            return SourceKey(connector=connector, cluster=cluster, topic=topic, partition=_checked(partition))
        case [str(connector), {"group": str(group), "topic": str(topic), "partition": int(partition)}]:
            return CheckpointKey(connector=connector, group=group, topic=topic, partition=_checked(partition))
        case [str(connector), {"sourceClusterAlias": str(source), "targetClusterAlias": str(target)}]:
            return HeartbeatKey(connector=connector, source=source, target=target)
    raise FormatError(f"cannot read offset key: not a source, checkpoint or heartbeat key: {raw!r:.200}")


def encode_offset(offset: int) -> bytes:
    """Return the record value for ``offset``, the last one before the offset to continue from."""
    return b'{"offset":%d}' % offset


def decode_offset(raw: bytes | None) -> int | None:
    """Return the last offset before the one to continue from; None for a tombstone or a value without an offset.

    Raises FormatError.
    """
    if raw is None:
        return None
    match decode_json(raw, "offset value"):
        case {"offset": int(offset)} if not isinstance(offset, bool) and abs(offset) <= _INT64_MAX:
            return offset
        case None:
            return None
        case dict(entries) if entries.get("offset") is None:
            return None
    raise FormatError(f"cannot read offset value: no offset in it: {raw!r:.200}")


def _checked(partition: int) -> int:
    if isinstance(partition, bool) or not 0 <= partition <= _INT32_MAX:
        raise FormatError(f"cannot read offset key: {partition} is not a partition number")
    return partition
