"""How to reach ZooKeeper, and as whom."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from mm2.core.names import Flow
from mm2.core.zookeeper_connect import ZooKeeperConnect

SESSION_TIMEOUT_MS = 20_000
"""An outage of ZooKeeper of 10 s costs nobody the membership: up to 3 s lie between the last look before it and its
begin, up to 3 s between its end and the next attempt to connect, and 4 s are left for a busy machine."""

LOOKS_IN_A_SESSION = 4
"""A look that is late, or whose answer is lost, is followed by another in time."""


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

    The servers may give another session timeout than asked for (2 to 20 of their ticks): theirs counts. The znodes are
    looked at once per heartbeat interval, and at least so often in a session as `LOOKS_IN_A_SESSION`. Milliseconds.
    """

    servers: tuple[str, ...]
    path: str
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    heartbeat_interval_ms: int = 3_000
    auth: ZooKeeperAuth | None = None


def election_path(connect: ZooKeeperConnect, flow: Flow) -> str:
    """Where the znodes of a flow's election live. Deployments that share servers and aliases need chroots of their
    own."""
    return f"{connect.chroot}/mm2/{flow}"
