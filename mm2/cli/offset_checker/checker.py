"""The command: reads a group from Kafka or ZooKeeper, and prints it in the columns of ConsumerOffsetChecker."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mm2.cli.clusters.cluster_access import REACHED_WITHIN_S, ask, note
from mm2.cli.errors import DONE, CommandError, UsageError
from mm2.cli.offset_checker.client_settings import read_client_settings, read_servers
from mm2.cli.offset_checker.group_offsets import GroupOffsets, NoSuchGroup, OldGroup, read_group_offsets
from mm2.core.printable import one_line
from mm2.core.settings.client import ClientSettings
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError

PROGRAM = "kafka-consumer-offset-checker"

DEFAULT_ZOOKEEPER = "localhost:2181"
SOCKET_TIMEOUT_MS = 6_000
RETRY_BACKOFF_MS = 3_000
"""The defaults of ConsumerOffsetChecker."""

_COLUMNS = "{:<15} {:<30} {:<3} {:<15} {:<15} {:<15} {}"
UNKNOWN = "unknown"
NO_OWNER = "none"


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
        from mm2.cli.offset_checker.old_groups import read_zookeeper  # noqa: PLC0415 groups in Kafka do not need kazoo

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
