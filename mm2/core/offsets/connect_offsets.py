"""Keys and values of ``mm2-offsets.*``: the source offsets of a Connect source task.

    source       ["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"orders"}]             {"offset":41}
    checkpoint   ["MirrorCheckpointConnector",{"partition":0,"topic":"A.orders","group":"g1"}]        {"offset":0}
    heartbeat    ["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]     {"offset":0}

Java looks up an offset by the bytes of its key, so these keys are byte-identical: JSON without spaces, entries in the
order of Java's HashMap, strings as in `jackson`. Decoding accepts a different order, spaces, additional entries and
other connector names.

At the end is what operators read if offsets are stored under another source alias, or if none is stored although the
target has copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from mm2.core.lanes.losses import accept_command
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.settings.client import FetchSettings, OffsetReset
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


def alias_change(
    flow: Flow,
    source_alias: str,
    partitions: Iterable[TopicPartition],
    *,
    stored: AbstractSet[TopicPartition],
    elsewhere: Mapping[str, AbstractSet[TopicPartition]],
) -> str | None:
    """Return a warning about those of ``partitions`` that do not continue because of the alias; None without any.

    ``stored`` have an offset under ``source_alias``, ``elsewhere`` under other aliases.
    """
    missing = sorted(one for one in partitions if one not in stored)
    for alias in sorted(elsewhere):
        found = [one for one in missing if one in elsewhere[alias]]
        if found:
            count = "1 partition starts" if len(found) == 1 else f"{len(found)} partitions start"
            return (
                f"source offsets, such as that of {found[0]}, are stored under the source alias {_shown(alias)}, but"
                f" the flow's is {_shown(source_alias)} (source.cluster.alias), so {count} without a stored offset"
                f" (auto.offset.reset); to continue where copying ended, write {flow}.source.cluster.alias = {alias}"
            )
    return None


def _shown(alias: str) -> str:
    return alias or "(empty)"


def start_setting(fetch: FetchSettings) -> str:
    """Return the setting that decides where partitions without a stored offset start."""
    if fetch.start is None:
        return f"auto.offset.reset = {fetch.auto_offset_reset}"
    if isinstance(fetch.start, OffsetReset):
        return f"mm2.start = {fetch.start}"
    return "the time of mm2.start"


def lost_offset(
    partition: TopicPartition, remote: TopicPartition, *, flow: Flow, offsets_topic: str, fetch: FetchSettings
) -> str:
    """Return why the partition is stopped, and the command that starts it."""
    return (
        f"{_beginning(partition)} in {offsets_topic}, although {remote} has records: they would be copied again, or"
        f" others left out. Its stored offset was deleted or expired, or another program copied them. To start it at"
        f" {start_setting(fetch)}: {accept_command(partition, flow)}"
    )


def is_lost_offset(partition: TopicPartition, error: str | None) -> bool:
    """Return whether ``error`` of the partition is a `lost_offset`."""
    return error is not None and error.startswith(_beginning(partition))


def unknown_copies(partition: TopicPartition, remote: TopicPartition, error: Exception) -> str:
    """Return why a partition without a stored offset waits."""
    return f"{partition} has no stored offset; cannot find out whether {remote} has copies: {error}"


def _beginning(partition: TopicPartition) -> str:
    return f"no offset of {partition} is stored"
