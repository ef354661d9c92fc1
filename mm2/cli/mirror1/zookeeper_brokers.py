"""Addresses of brokers from ZooKeeper, for files of Kafka 0.7 and 0.8 with zookeeper.connect."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from mm2.cli.clusters.znodes import BROKERS, connected
from mm2.core.mirror1.settings import MirrorSettings
from mm2.core.printable import one_line
from mm2.core.settings.client import ClientSettings, SecurityProtocol
from mm2.core.settings.zookeeper_connect import ZooKeeperConnect
from mm2.core.wire.formats import FormatError

CONNECT_S = 10.0  # to the first server that answers
RETRY_S = 5.0  # ZooKeeper or the brokers may be starting


class NoBrokers(Exception):
    """ZooKeeper has no broker to connect to now, or does not answer. The message is the reason."""


def with_brokers(settings: MirrorSettings, *, connect_s: float = CONNECT_S, retry_s: float = RETRY_S) -> MirrorSettings:
    """Return ``settings`` with the bootstrap servers of all clients. Waits, with messages, until they are found.

    ``connect_s``: seconds for a server to answer. ``retry_s``: pause in seconds when none has.
    """

    def found(client: ClientSettings, zookeeper: ZooKeeperConnect | None, file: str) -> ClientSettings:
        return _with_servers(client, zookeeper, file, connect_s=connect_s, retry_s=retry_s)

    return replace(
        settings,
        consumers=tuple(replace(one, client=found(one.client, one.zookeeper, one.file)) for one in settings.consumers),
        target=found(settings.target, settings.target_zookeeper, "the file of --producer.config"),
    )


def registered_brokers(
    connect: ZooKeeperConnect, protocol: SecurityProtocol, *, connect_s: float = CONNECT_S
) -> tuple[str, ...]:
    """Return ``host:port`` of the listener with ``protocol`` of each live broker. Raises NoBrokers.

    ``connect_s``: seconds for a server to answer.
    """
    place = f"{','.join(connect.servers)}{connect.chroot}"
    try:
        with connected(connect, connect_s) as znodes:
            if not znodes.exists(BROKERS):
                raise NoBrokers(f"ZooKeeper {place} has no {BROKERS}; check the path in zookeeper.connect")
            addresses = znodes.broker_addresses(protocol).values()
    except FormatError as error:
        raise NoBrokers(f"ZooKeeper {place}: {error}") from error
    except (KazooException, KazooTimeoutError, OSError) as error:
        reason = str(error) or type(error).__name__
        raise NoBrokers(f"ZooKeeper {place} does not answer ({reason}); check zookeeper.connect") from error
    servers = tuple(address for address in addresses if address is not None)
    if not servers:
        raise NoBrokers(
            f"ZooKeeper {place}: no live broker has a {protocol} listener; check that brokers run and security.protocol"
        )
    return servers


def _with_servers(
    client: ClientSettings, zookeeper: ZooKeeperConnect | None, file: str, *, connect_s: float, retry_s: float
) -> ClientSettings:
    if zookeeper is None:
        return client
    while True:
        try:
            servers = registered_brokers(zookeeper, client.security_protocol, connect_s=connect_s)
        except NoBrokers as error:
            print(one_line(f"{file}: {error}; retrying in {retry_s:.0f} s"), file=sys.stderr)  # noqa: T201 nothing logs yet
            time.sleep(retry_s)
        else:
            print(one_line(f"{file}: brokers in ZooKeeper: {', '.join(servers)}"), file=sys.stderr)  # noqa: T201 as above
            return replace(client, bootstrap_servers=servers)
