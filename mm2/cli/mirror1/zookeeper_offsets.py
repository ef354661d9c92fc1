"""Offsets of MirrorMaker 1's group in ZooKeeper, where Kafka's old consumer (0.8 to 1.1) has them by default."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import replace

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from mm2.cli.clusters.znodes import connected
from mm2.cli.mirror1.zookeeper_brokers import CONNECT_S, RETRY_S
from mm2.core.mirror1.settings import ConsumerSettings, MirrorSettings
from mm2.core.naming.names import TopicPartition

_NAMED = 3
"""Members that a message names: an old mirror has one for each stream."""


class NoOldOffsets(Exception):
    """ZooKeeper does not answer, or the group has members there, which still commit. The message is the reason."""


def with_old_offsets(
    settings: MirrorSettings, *, connect_s: float = CONNECT_S, retry_s: float = RETRY_S
) -> MirrorSettings:
    """Return ``settings`` with the offsets that ZooKeeper has for each group that can have some there.

    Waits, with messages, until ZooKeeper answers and the group has no members there: these are no members of the group
    in Kafka, so both would copy all partitions. ``connect_s``: seconds for a server to answer. ``retry_s``: pause in
    seconds before it is tried again.
    """

    def found(consumer: ConsumerSettings) -> ConsumerSettings:
        while True:
            try:
                return replace(consumer, old_offsets=read_old_offsets(consumer, connect_s=connect_s))
            except NoOldOffsets as error:
                print(f"{consumer.file}: {error}; retrying in {retry_s:.0f} s", file=sys.stderr)  # noqa: T201 no log yet
                time.sleep(retry_s)

    return replace(settings, consumers=tuple(map(found, settings.consumers)))


def read_old_offsets(consumer: ConsumerSettings, *, connect_s: float = CONNECT_S) -> Mapping[TopicPartition, int]:
    """Return the offsets that ZooKeeper has for the group; none if it has none by its file. Raises NoOldOffsets.

    ``connect_s``: seconds for a server to answer.
    """
    connect, group = consumer.zookeeper, consumer.group.group_id
    if connect is None or not consumer.has_old_offsets:
        return {}
    place = f"{','.join(connect.servers)}{connect.chroot}"
    try:
        with connected(connect, connect_s) as znodes:
            members, offsets = znodes.group_members(group), znodes.group_offsets(group)
    except (KazooException, KazooTimeoutError, OSError) as error:
        reason = str(error) or type(error).__name__
        raise NoOldOffsets(f"ZooKeeper {place} does not answer ({reason}); check zookeeper.connect") from error
    if members:
        named = ", ".join(members[:_NAMED]) + (", …" if len(members) > _NAMED else "")
        raise NoOldOffsets(f"group {group} has members in ZooKeeper {place} ({named}): stop MirrorMaker 1 first")
    return {one: offset for one, offset in offsets.items() if offset >= 0}
