"""Settings of an election on ZooKeeper."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from mm2.core.naming.names import Flow
from mm2.core.settings.election import ElectionSettings
from mm2.core.settings.tls import TlsSettings
from mm2.core.settings.zookeeper_connect import ZooKeeperConnect

SESSION_TIMEOUT_MS = 20_000
"""Default session timeout. Members survive a ZooKeeper outage of 10 s: up to 3 s pass between the last read and the
start of the outage, up to 3 s between its end and the next connection attempt, and 4 s are left for a busy machine."""

READS_PER_SESSION = 4
"""Minimum reads per session timeout, so that a late or lost read is followed by another one in time."""


class AuthScheme(StrEnum):
    """How a client authenticates. With either scheme, only the same identity can access the znodes it creates."""

    DIGEST = "digest"
    """ZooKeeper's own scheme: user and password, checked against ACLs only."""

    SASL = "sasl"
    """DIGEST-MD5 with the users in the servers' JAAS file; servers can require it of all clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperAuth:
    """A ZooKeeper identity."""

    scheme: AuthScheme
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSettings(ElectionSettings):
    """Settings of one election. Durations are milliseconds.

    ``servers`` are ``host:port``; ``path`` is the path of its znodes including the chroot. Each flow has its own path,
    because flows from one source to several targets have the same group ID. Servers can grant a session timeout other
    than the requested one (2 to 20 of their ticks), which then applies. The znodes are read once per heartbeat
    interval, and at least `READS_PER_SESSION` times per session timeout. ``tls`` None: connections are not encrypted.
    """

    backend: ClassVar[str] = "zookeeper"

    servers: tuple[str, ...]
    path: str
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    heartbeat_interval_ms: int = 3_000
    auth: ZooKeeperAuth | None = None
    tls: TlsSettings | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        password = self.auth and self.auth.password
        tls = (self.tls.key_password, self.tls.key_pem) if self.tls is not None else ()
        return tuple(filter(None, (password, *tls)))

    @property
    def places(self) -> tuple[str, ...]:
        """One location per server, so that a node with one server more or less can join while servers are replaced.

        They do not contain the backend's name, for compatibility with releases that had a single backend.
        """
        return tuple(f"{server.lower()}{self.path}" for server in self.servers)


def election_path(connect: ZooKeeperConnect, flow: Flow) -> str:
    """Return the path of the znodes of a flow's election.

    Deployments that share servers and aliases need different chroots.
    """
    return f"{connect.chroot}/mm2/{flow}"
