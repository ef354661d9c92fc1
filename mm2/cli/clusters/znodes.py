"""Reading of ZooKeeper, where brokers until Kafka 3.9 are registered, and where the old consumer keeps its state.

/brokers/ids/ID                             a broker (`mm2.core.wire.broker_registrations`)
/consumers/GROUP/ids/CONSUMER               a member, while it is connected
/consumers/GROUP/offsets/TOPIC/PARTITION    the next offset to read, as text
/consumers/GROUP/owners/TOPIC/PARTITION     the ID of the consumer thread
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from mm2.core.naming.names import TopicPartition
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

    def group_members(self, group: str) -> list[str]:
        """Return the IDs of the members of a group of the old consumer."""
        return self.children(f"/consumers/{group}/ids")

    def group_offsets(self, group: str, topics: Collection[str] | None = None) -> dict[TopicPartition, int]:
        """Return the offsets of a group of the old consumer, of these topics or all; -1 for what is no number."""
        root = f"/consumers/{group}/offsets"
        return {
            one: _number(raw) for one, raw in self.by_partition(root, self.children(root) if topics is None else topics)
        }

    def by_partition(self, root: str, topics: Collection[str]) -> Iterator[tuple[TopicPartition, bytes]]:
        """Yield the data of ``root/TOPIC/PARTITION`` for each partition of these topics."""
        for topic in topics:
            for number in self.children(f"{root}/{topic}"):
                raw = self.data(f"{root}/{topic}/{number}")
                if raw is not None and number.isdecimal():
                    yield TopicPartition(topic, int(number)), raw

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


def _number(raw: bytes) -> int:
    try:
        return int(raw)
    except ValueError:
        return -1
