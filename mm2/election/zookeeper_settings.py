"""How to reach ZooKeeper, and as whom."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from mm2.core.names import Flow
from mm2.core.zookeeper_connect import ZooKeeperConnect


class AuthScheme(StrEnum):
    """How a client proves who it is. With either, znodes are made so that only the same identity may touch them."""

    DIGEST = "digest"
    """ZooKeeper's own: user and password, checked against ACLs only."""

    SASL = "sasl"
    """DIGEST-MD5 against the users in the servers' JAAS file, which may also be demanded of everybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperAuth:
    """An identity."""

    scheme: AuthScheme
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSettings:
    """One election. ``servers`` are ``host:port``; ``path`` is where its znodes live, chroot included: one per flow,
    since flows from the same source to several targets have the same group id.

    The servers may give another session timeout than asked for (2 to 20 of their ticks): theirs counts. Milliseconds.
    """

    servers: tuple[str, ...]
    path: str
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    auth: ZooKeeperAuth | None = None


def election_path(connect: ZooKeeperConnect, flow: Flow) -> str:
    """Where the znodes of a flow's election live. Deployments that share servers and aliases need chroots of their
    own."""
    return f"{connect.chroot}/mm2/{flow}"
