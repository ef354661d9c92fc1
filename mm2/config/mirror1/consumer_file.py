"""The file of --consumer.config: a source cluster and the consumer group."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mm2.config.clients.client_reader import ClientReader
from mm2.config.clients.ignored_client_keys import ClientKind
from mm2.config.grammar.properties import Entry
from mm2.config.grammar.values import Value
from mm2.config.keys import declaration
from mm2.config.mirror1.client_file import ClientFile
from mm2.config.mirror1.group_keys import RESET, STRATEGIES, GroupKeys
from mm2.config.mirror1.old_keys import ZOOKEEPER
from mm2.core.mirror1.assignors import JAVA_CLASSES
from mm2.core.mirror1.settings import ConsumerSettings, GroupMembership


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerFile:
    """The file and its settings, which are only valid if ``file.problems`` have no error."""

    file: ClientFile
    settings: ConsumerSettings


def read_consumer(path: Path, *, joins_group: bool) -> ConsumerFile:
    """Read the file at ``path``. The default of auto.offset.reset is Java's, latest.

    ``joins_group`` False: only the offsets of the group are read, so that its assignors are of no importance.
    """
    file = ClientFile.read(path, ClientKind.CONSUMER)
    problems = file.problems
    keys = declaration.read(GroupKeys, file.properties, problems)
    if RESET not in file.properties or file.properties[RESET].text.strip() != keys.auto_offset_reset:
        file.properties[RESET] = Value(keys.auto_offset_reset)  # the other models have another default
    if not keys.group_id and not file.unreadable:
        problems.error("missing", "add group.id, the name of the consumer group", key="group.id")
    _check_session(file, keys)
    if joins_group:
        _check_assignors(file, keys)
    zookeeper = file.zookeeper()
    if zookeeper is not None:
        _warn_of_offsets(file)
    reader = ClientReader(
        clusters=Entry(file=str(path), line=1, key="bootstrap.servers", raw="", value=""), problems=problems
    )
    group = GroupMembership(
        group_id=keys.group_id or "",
        session_timeout_ms=keys.session_timeout_ms,
        heartbeat_interval_ms=keys.heartbeat_interval_ms,
        max_poll_interval_ms=keys.max_poll_interval_ms,
        instance_id=keys.group_instance_id or None,
        assignors=keys.assignors,
    )
    settings = ConsumerSettings(
        file=str(path),
        client=file.client(group.group_id),
        zookeeper=zookeeper,
        fetch=reader.fetch(file.properties),
        group=group,
        exclude_internal_topics=keys.exclude_internal_topics,
    )
    return ConsumerFile(file=file, settings=settings)


def _check_session(file: ClientFile, keys: GroupKeys) -> None:
    if keys.heartbeat_interval_ms < keys.session_timeout_ms:
        return
    name = "heartbeat.interval.ms" if "heartbeat.interval.ms" in file.properties else "session.timeout.ms"
    file.properties[name].refuse(
        file.problems,
        "heartbeat.interval.ms must be less than session.timeout.ms",
        f"write heartbeat.interval.ms = {max(1, keys.session_timeout_ms // 3)}",
    )


def _check_assignors(file: ClientFile, keys: GroupKeys) -> None:
    if keys.assignors:
        return
    supported = " or ".join(JAVA_CLASSES.values())
    file.properties[STRATEGIES].refuse(
        file.problems,
        "has no assignor that is supported here: range and roundrobin are",
        f"write {supported}: first in the files of all members of the group, and restart them, or stop all of them",
    )


def _warn_of_offsets(file: ClientFile) -> None:
    """Warn that offsets in ZooKeeper are not used, unless the file says that they are in Kafka."""
    if "offsets.storage" not in file.entries:
        file.properties[ZOOKEEPER].warn(
            file.problems,
            "offsets that a consumer of Kafka 0.8 committed to ZooKeeper are not read: a group without offsets in Kafka"
            f" starts at {RESET}, {file.properties[RESET].text.strip()}",
            "commit the offsets to Kafka first (offsets.storage = kafka with dual.commit.enabled = true), then write"
            " offsets.storage = kafka",
        )
