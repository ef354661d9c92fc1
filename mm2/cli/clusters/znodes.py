"""Reading of ZooKeeper, where brokers until Kafka 3.9 are registered, and where the old consumer keeps its state."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.zookeeper_connect import ZooKeeperConnect
from mm2.core.wire.broker_registrations import decode_broker_address
from mm2.core.wire.formats import FormatError

BROKERS = "/brokers/ids"


@contextlib.contextmanager
def connected(connect: ZooKeeperConnect, timeout_s: float) -> Iterator[Znodes]:
    """Connect to the first server that answers within ``timeout_s`` seconds, for reading.

    Raises KazooTimeoutError if none answers; this and reads raise KazooException and OSError.
    """
    quiet = logging.Logger("kazoo", logging.CRITICAL)  # the caller reports a failure, once
    client = KazooClient(hosts=",".join(connect.servers), timeout=timeout_s, read_only=True, logger=quiet)
    try:
        client.start(timeout=timeout_s)
        yield Znodes(client, connect.chroot)
    finally:
        client.stop()
        client.close()


@dataclass(frozen=True, slots=True)
class Znodes:
    """A connected client. ``chroot`` is before each path; kazoo's own warns on stderr if it does not exist."""

    client: KazooClient
    chroot: str

    def exists(self, path: str) -> bool:
        return self.client.exists(self.chroot + path) is not None

    def children(self, path: str) -> list[str]:
        """Return the names of the children, sorted; none if there is no such znode."""
        try:
            return sorted(self.client.get_children(self.chroot + path))
        except NoNodeError:
            return []

    def data(self, path: str) -> bytes | None:
        """Return the data of the znode; None if there is no such znode."""
        try:
            data, _ = self.client.get(self.chroot + path)
        except NoNodeError:
            return None
        return bytes(data)

    def broker_addresses(self, protocol: SecurityProtocol) -> dict[str, str | None]:
        """Return ``host:port`` of the listener with ``protocol``, or None, of each live broker by its ID.

        Raises FormatError, with the broker's ID, for a registration that cannot be read.
        """
        addresses = {}
        for broker in self.children(BROKERS):
            raw = self.data(f"{BROKERS}/{broker}")
            if raw is None:
                continue  # it has just stopped
            try:
                addresses[broker] = decode_broker_address(raw, protocol)
            except FormatError as error:
                raise FormatError(f"broker {broker}: {error}") from error
        return addresses
