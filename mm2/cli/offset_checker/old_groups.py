"""Groups of the old consumer (until Kafka 1.1), which has its offsets and owners in ZooKeeper (`Znodes`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from mm2.cli.clusters.znodes import BROKERS, Znodes, connected
from mm2.cli.errors import CommandError, UsageError
from mm2.cli.offset_checker.group_offsets import OldGroup
from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.zookeeper_connect import parse_connect
from mm2.core.wire.formats import FormatError


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
