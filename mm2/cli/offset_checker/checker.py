"""The command: reads a group from Kafka or ZooKeeper, and prints it in the columns of ConsumerOffsetChecker."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from mm2.cli.clusters.cluster_access import REACHED_WITHIN_S, ask, note
from mm2.cli.clusters.znodes import BROKERS, Znodes, connected
from mm2.cli.errors import DONE, CommandError, UsageError
from mm2.config.clients.client_keys import AdminKeys
from mm2.config.clients.client_reader import ClientReader
from mm2.config.grammar import providers
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.properties import Entry, read_file
from mm2.config.grammar.values import Properties, Value
from mm2.core.naming.names import TopicPartition
from mm2.core.printable import one_line
from mm2.core.settings.client import ClientSettings, SecurityProtocol
from mm2.core.settings.zookeeper_connect import parse_connect
from mm2.core.wire.formats import FormatError
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.metadata import PartitionLeader
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import ClusterError, NoLeader
from mm2.kafka.groups.group_members import assigned_partitions, describe_group
from mm2.kafka.groups.groups import committed_offsets
from mm2.kafka.protocol.group_offset_requests import CommittedOffsets
from mm2.kafka.protocol.group_requests import DescribedGroup, GroupMember

_DEAD = "dead"  # the state of a group that does not exist


class NoSuchGroup(Exception):
    """The group does not exist: it has neither members nor offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldGroup:
    """What ZooKeeper has about a group of the old consumer. ``topics``: those that its members own, or if there are no
    members, those with offsets. ``offsets`` and ``owners`` are by partition."""

    exists: bool = False
    topics: tuple[str, ...] = ()
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    owners: Mapping[TopicPartition, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffset:
    """One partition. ``offset``: the committed one; ``log_size``: the end offset; None: unknown. ``owner`` None: no
    member has the partition. ``leader``: the broker's ID; None: there is none."""

    partition: TopicPartition
    offset: int | None
    log_size: int | None
    owner: str | None
    leader: int | None

    @property
    def lag(self) -> int | None:
        """Log size minus offset; None if one of them is unknown."""
        return None if self.offset is None or self.log_size is None else self.log_size - self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsets:
    """The partitions of a group, sorted by topic and number. ``brokers``: ``host:port`` of their leaders by ID.
    ``notes``: topics that do not exist, and what could not be read."""

    partitions: tuple[PartitionOffset, ...]
    brokers: Mapping[int, str]
    notes: tuple[str, ...]


async def read_group_offsets(
    cluster: Cluster, group: str, topics: Collection[str], *, old: OldGroup | None = None, timeout_ms: int
) -> GroupOffsets:
    """Return all partitions of ``topics``, or without any of those that the group owns or has offsets for.

    Offsets in Kafka have priority over those of ``old``, as in Java: a group of the old consumer has some there if it
    uses offsets.storage=kafka. Raises NoSuchGroup, and ClusterError if the offsets cannot be read.
    """
    old = old or OldGroup()
    notes: list[str] = []
    committed, described = await asyncio.gather(
        committed_offsets(cluster, [group], timeout_ms=timeout_ms),
        describe_group(cluster, group, timeout_ms=timeout_ms),
    )
    offsets = committed[group]
    if isinstance(offsets, ClusterError):
        raise offsets
    owners = dict(_owners(described, notes)) | dict(old.owners)
    if not offsets and not old.exists and isinstance(described, DescribedGroup) and described.state.lower() == _DEAD:
        raise NoSuchGroup(group)
    chosen = topics or old.topics or {one.topic for one in (*offsets, *owners)}
    partitions = await _partitions(cluster, sorted(chosen), notes)
    ends = await list_offsets(cluster, partitions, OffsetSpec.LATEST, timeout_ms=timeout_ms)
    leaders = await cluster.leaders(partitions)
    rows = [
        PartitionOffset(
            partition=one,
            offset=_offset(one, offsets, old),
            log_size=None if isinstance(end := ends[one], ClusterError) else end,
            owner=owners.get(one),
            leader=leader.node_id if isinstance(leader := leaders[one], PartitionLeader) else None,
        )
        for one in partitions
    ]
    notes += [
        f"no end offset of {one}: {end}"
        for one, end in ends.items()
        if isinstance(end, ClusterError) and not isinstance(end, NoLeader)
    ]
    brokers = (await cluster.metadata(())).brokers
    used = sorted({row.leader for row in rows if row.leader is not None} & brokers.keys())
    return GroupOffsets(
        partitions=tuple(rows),
        brokers={node_id: f"{brokers[node_id].host}:{brokers[node_id].port}" for node_id in used},
        notes=tuple(notes),
    )


async def _partitions(cluster: Cluster, topics: Sequence[str], notes: list[str]) -> list[TopicPartition]:
    found = (await cluster.metadata(topics)).topics if topics else {}
    partitions = []
    for topic in topics:
        numbers = sorted(one.partition for one in found[topic].partitions) if topic in found else []
        partitions += [TopicPartition(topic, number) for number in numbers]
        if not numbers:
            notes.append(f"topic {topic} does not exist, or may not be described")
    return partitions


def _offset(partition: TopicPartition, offsets: CommittedOffsets, old: OldGroup) -> int | None:
    committed = offsets.get(partition)
    if committed is not None:
        return committed.offset
    stored = old.offsets.get(partition, -1)
    return stored if stored >= 0 else None


def _owners(described: DescribedGroup | ClusterError, notes: list[str]) -> Mapping[TopicPartition, str]:
    if isinstance(described, ClusterError):
        notes.append(f"owners are unknown: {described}")
        return {}
    return {partition: _owner(member) for member in described.members for partition in assigned_partitions(member)}


def _owner(member: GroupMember) -> str:
    """Return the member ID, which usually starts with the client ID, and the host: ``consumer-1-5f…_/10.0.0.7``."""
    name = member.member if member.member.startswith(member.client) else f"{member.client}-{member.member}"
    return f"{name}_{member.host}"


PROGRAM = "kafka-consumer-offset-checker"

DEFAULT_ZOOKEEPER = "localhost:2181"
SOCKET_TIMEOUT_MS = 6_000
RETRY_BACKOFF_MS = 3_000
"""The defaults of ConsumerOffsetChecker."""

_COLUMNS = "{:<15} {:<30} {:<3} {:<15} {:<15} {:<15} {}"
UNKNOWN = "unknown"
NO_OWNER = "none"


CLIENT_ID = "ConsumerOffsetChecker"
"""Java's client ID, which brokers log."""

_UNKNOWN = ("unknown:1",)
"""Servers that ZooKeeper will replace: it is asked only after the file is found to be valid."""

_SERVER = re.compile(r"\[?[\w.%:-]+\]?:[0-9]{1,5}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class InZooKeeper:
    """The group and the registered brokers, ``host:port``."""

    group: OldGroup
    brokers: tuple[str, ...]


def read_zookeeper(
    connect: str, group: str, topics: Sequence[str], protocol: SecurityProtocol, *, timeout_s: float
) -> InZooKeeper:
    """Return the group as ZooKeeper has it, with offsets and owners of ``topics``, or of all its topics.

    Raises UsageError for an invalid connect string, CommandError if the servers do not answer within ``timeout_s``, or
    no broker with a listener of this security protocol is registered.
    """
    try:
        place = parse_connect(connect)
    except ValueError as error:
        raise UsageError(f"--zookeeper {connect}: {error}") from error
    try:
        with connected(place, timeout_s) as znodes:
            brokers = _brokers(znodes, connect, protocol)
            return InZooKeeper(group=_group(znodes, group, topics), brokers=brokers)
    except FormatError as error:
        raise CommandError(f"ZooKeeper {connect}: {error}") from error
    except KazooTimeoutError as error:
        raise CommandError(f"ZooKeeper {connect} did not answer within {timeout_s:g} s: check --zookeeper") from error
    except (KazooException, OSError) as error:
        raise CommandError(f"ZooKeeper {connect}: {type(error).__name__} {error}".rstrip()) from error


def _brokers(znodes: Znodes, connect: str, protocol: SecurityProtocol) -> tuple[str, ...]:
    found = znodes.broker_addresses(protocol)
    if not found:
        raise CommandError(f"ZooKeeper {connect} has no brokers in {BROKERS}: check the path after the last server")
    addresses = tuple(address for address in found.values() if address is not None)
    if not addresses:
        raise CommandError(
            f"no broker in ZooKeeper {connect} has a listener with {protocol}: set security.protocol in"
            " --command-config"
        )
    return addresses


def _group(znodes: Znodes, group: str, topics: Sequence[str]) -> OldGroup:
    root = f"/consumers/{group}"
    if not znodes.exists(root):
        return OldGroup()
    owned = [topic for topic in znodes.children(f"{root}/owners") if znodes.children(f"{root}/owners/{topic}")]
    chosen = tuple(topics) or tuple(owned) or tuple(znodes.children(f"{root}/offsets"))
    return OldGroup(
        exists=True,
        topics=chosen,
        offsets=znodes.group_offsets(group, chosen),
        owners={one: raw.decode(errors="replace") for one, raw in znodes.by_partition(f"{root}/owners", chosen)},
    )


def read_servers(text: str) -> tuple[str, ...]:
    """Return the servers of ``--bootstrap-server``. Raises UsageError."""
    servers = tuple(one.strip() for one in text.split(",") if one.strip())
    wrong = [one for one in servers if not _SERVER.fullmatch(one)]
    if wrong or not servers:
        raise UsageError(f"--bootstrap-server {text}: must be a comma-separated host:port list")
    return servers


def read_client_settings(
    file: Path | None, servers: Sequence[str], *, timeout_ms: int, backoff_ms: int
) -> ClientSettings:
    """Return the settings for these servers (none: not known yet), with Java's admin client keys of ``file``.

    Its request.timeout.ms and retry.backoff.ms have priority. Raises UsageError with the file's first error.
    """
    properties: Properties = {}
    log = ProblemLog(str(file or "properties"))
    if file is not None:
        entries = read_file(file, log)
        if entries is not None:
            properties = {key: Value.of(entry) for key, entry in providers.resolve(entries, log).items()}
    properties["bootstrap.servers"] = Value(",".join(servers or _UNKNOWN))
    nowhere = Entry(file=str(file), line=0, key="", raw="", value="")
    settings = ClientReader(clusters=nowhere, problems=log).read(properties, AdminKeys, "", CLIENT_ID)
    if log.failed:
        raise UsageError(next(str(problem) for problem in log.in_order() if not problem.is_warning))
    if "request.timeout.ms" not in properties:
        settings = replace(settings, request_timeout_ms=timeout_ms)
    if "retry.backoff.ms" not in properties:
        settings = replace(
            settings,
            retry_backoff_ms=backoff_ms,
            retry_backoff_max_ms=max(backoff_ms, settings.retry_backoff_max_ms),
        )
    return settings


def check_offsets(
    *,
    group: str,
    bootstrap_server: str | None = None,
    zookeeper: str | None = None,
    topic: str | None = None,
    broker_info: bool = False,
    command_config: str | None = None,
    socket_timeout_ms: str = str(SOCKET_TIMEOUT_MS),
    retry_backoff_ms: str = str(RETRY_BACKOFF_MS),
) -> int:
    """Print offset, log size, lag and owner of each partition of a group.

    Raises UsageError for a wrong command line or file, CommandError if the group does not exist or cannot be read.
    """
    if bootstrap_server is not None and zookeeper is not None:
        raise UsageError("--bootstrap-server and --zookeeper cannot be combined: use one of them")
    if not group or "/" in group:
        raise UsageError(f"--group {group!r}: must be the name of a consumer group")
    topics = tuple(dict.fromkeys(one.strip() for one in (topic or "").split(",") if one.strip()))
    settings = read_client_settings(
        None if command_config is None else Path(command_config),
        () if bootstrap_server is None else read_servers(bootstrap_server),
        timeout_ms=_milliseconds("--socket.timeout.ms", socket_timeout_ms, least=1),
        backoff_ms=_milliseconds("--retry.backoff.ms", retry_backoff_ms, least=0),
    )
    old = None
    where = f"on {bootstrap_server}"
    if bootstrap_server is None:
        from mm2.cli.offset_checker.checker import read_zookeeper  # noqa: PLC0415 groups in Kafka do not need kazoo

        connect = zookeeper or DEFAULT_ZOOKEEPER
        where = f"in ZooKeeper {connect} and on its brokers"
        found = read_zookeeper(
            connect, group, topics, settings.security_protocol, timeout_s=settings.request_timeout_ms / 1000
        )
        old, settings = found.group, replace(settings, bootstrap_servers=found.brokers)
    try:
        offsets = ask(_read(settings, group, topics, old), f"reading the offsets of {group}")
    except NoSuchGroup as error:
        raise CommandError(f"group {group} does not exist {where}: it has neither members nor offsets") from error
    except ClusterError as error:
        raise CommandError(str(error)) from error
    for text in offsets.notes:
        note(f"{PROGRAM}: {text}")
    sys.stdout.writelines(f"{one_line(line)}\n" for line in offset_lines(group, offsets, broker_info=broker_info))
    if topics and not offsets.partitions:
        raise CommandError("none of the topics exists")
    return DONE


def offset_lines(group: str, found: GroupOffsets, *, broker_info: bool = False) -> Iterator[str]:
    """Yield the lines that ConsumerOffsetChecker prints."""
    yield _COLUMNS.format("Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner")
    for row in found.partitions:
        topic, number = row.partition.topic, row.partition.partition
        if row.leader is None:
            yield f"No broker for partition {topic} - {number}"
            continue
        yield _COLUMNS.format(
            group,
            topic,
            number,
            *(UNKNOWN if value is None else value for value in (row.offset, row.log_size, row.lag)),
            NO_OWNER if row.owner is None else row.owner,
        )
    if broker_info:
        yield "BROKER INFO"
        yield from (f"{node_id} -> {address}" for node_id, address in found.brokers.items())


async def _read(settings: ClientSettings, group: str, topics: tuple[str, ...], old: OldGroup | None) -> GroupOffsets:
    async with Cluster(settings) as cluster:
        try:
            async with asyncio.timeout(REACHED_WITHIN_S):
                await cluster.metadata(())
        except TimeoutError:
            servers = ",".join(settings.bootstrap_servers)
            raise CommandError(f"{servers} did not answer within {REACHED_WITHIN_S:g} s") from None
        return await read_group_offsets(
            cluster, group, topics, old=old, timeout_ms=settings.request_timeout_ms + settings.retry_backoff_ms
        )


def _milliseconds(option: str, text: str, *, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not least <= value < 2**31:
        raise UsageError(f"{option} {text}: must be a number of milliseconds, at least {least}")
    return value
