"""The file of --consumer.config: a source cluster and the consumer group."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mm2.config.clients.client_reader import ClientReader
from mm2.config.clients.ignored_client_keys import ClientKind
from mm2.config.grammar.properties import Entry
from mm2.config.grammar.values import Value
from mm2.config.keys import declaration
from mm2.config.mirror1.client_file import BROKERS_INSTEAD, ClientFile
from mm2.config.mirror1.group_keys import RESET, STRATEGIES, GroupKeys
from mm2.config.mirror1.old_keys import ZOOKEEPER
from mm2.core.mirror1.assignors import JAVA_CLASSES
from mm2.core.mirror1.settings import ConsumerSettings, GroupMembership

STORAGE = "offsets.storage"
_IN_KAFKA, _IN_ZOOKEEPER = "kafka", "zookeeper"


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
    storage = _offsets_storage(file)
    wait = f"{BROKERS_INSTEAD}, as soon as the offsets of the group are in Kafka"
    zookeeper = file.zookeeper(fix=wait if storage == _IN_ZOOKEEPER else BROKERS_INSTEAD)
    _check_storage(file, storage, is_readable=zookeeper is not None)
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
        has_old_offsets=zookeeper is not None and storage == _IN_ZOOKEEPER,
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


def _offsets_storage(file: ClientFile) -> str:
    """Return where Kafka's old consumer has its offsets: in ZooKeeper by default."""
    value = file.properties.get(STORAGE)
    return _IN_ZOOKEEPER if value is None else value.text.strip().lower()


def _check_storage(file: ClientFile, storage: str, *, is_readable: bool) -> None:
    """Warn that offsets in ZooKeeper are only read, and reject the file if it says that they are there but not where.

    ``is_readable``: the file says where ZooKeeper is.
    """
    problems, value = file.problems, file.properties.get(STORAGE)
    if value is not None and storage not in (_IN_KAFKA, _IN_ZOOKEEPER):
        value.refuse(problems, f"must be {_IN_ZOOKEEPER} or {_IN_KAFKA}", f"write {STORAGE} = {_IN_ZOOKEEPER}")
    elif storage == _IN_ZOOKEEPER and is_readable:
        file.properties[ZOOKEEPER].warn(
            problems,
            "offsets of the group that Kafka does not have are read from ZooKeeper at the start; they are committed to"
            " Kafka",
            f"write {STORAGE} = {_IN_KAFKA} as soon as they are in Kafka",
        )
    elif value is not None and storage == _IN_ZOOKEEPER:
        value.refuse(
            problems,
            f"offsets are read from ZooKeeper only with {ZOOKEEPER}, and without bootstrap.servers",
            f"replace bootstrap.servers with {ZOOKEEPER} = host:2181, or write {STORAGE} = {_IN_KAFKA} if the group has"
            " its offsets in Kafka",
        )
