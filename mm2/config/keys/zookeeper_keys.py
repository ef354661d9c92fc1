"""Keys of leader election through ZooKeeper."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from mm2.config.grammar.java_types import Int, OptionalString, at_least, one_of, refuse
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.values import Properties
from mm2.config.keys.declaration import key
from mm2.config.keys.election_keys import ELECTION, BackendKeys, FlowElection, given
from mm2.config.keys.update_mode import UpdateMode
from mm2.core.naming.names import Flow
from mm2.core.settings.zookeeper import (
    SESSION_TIMEOUT_MS,
    AuthScheme,
    ZooKeeperAuth,
    ZooKeeperSettings,
    election_path,
)
from mm2.core.settings.zookeeper_connect import parse_connect

CONNECT = "mm2.zookeeper.connect"
SCHEME = "mm2.zookeeper.auth.scheme"
USERNAME = "mm2.zookeeper.auth.username"
PASSWORD = "mm2.zookeeper.auth.password"  # noqa: S105 - the name of the key
SESSION_TIMEOUT = "mm2.zookeeper.session.timeout.ms"
SHORTEST_SESSION_MS = 2_000


def _connect(text: str | None) -> str | None:
    if text:
        try:
            parse_connect(text)
        except ValueError as rule:
            raise refuse(str(rule)) from rule
    return text


def _username(text: str) -> str:
    if ":" in text:
        raise refuse("must not contain a colon, which separates user and password in both schemes")
    return text


class ZooKeeperKeys(BackendKeys):
    """Keys of our own; Java ignores them."""

    connect: Annotated[OptionalString, AfterValidator(_connect)] = key(
        CONNECT,
        None,
        "ZooKeeper servers and root path, `host:port,…/path`. Must be the same on all nodes of a flow.",
        update_mode=UpdateMode.NODE,
    )
    scheme: Annotated[OptionalString, one_of("digest", "sasl")] = key(
        SCHEME,
        None,
        "Authentication to ZooKeeper: `digest`, or `sasl` (DIGEST-MD5). If not set: none.",
        update_mode=UpdateMode.NODE,
    )
    username: Annotated[OptionalString, AfterValidator(_username)] = key(
        USERNAME, None, "User that owns all znodes.", update_mode=UpdateMode.NODE
    )
    password: OptionalString = key(PASSWORD, None, "Password of that user (secret).", update_mode=UpdateMode.NODE)
    session_timeout_ms: Annotated[
        Int, at_least(SHORTEST_SESSION_MS, "a pause of a busy machine would expire the session")
    ] = key(
        SESSION_TIMEOUT,
        SESSION_TIMEOUT_MS,
        "ZooKeeper session timeout. The servers limit it to 2 to 20 times their tickTime.",
        update_mode=UpdateMode.NODE,
    )

    def elections(self, properties: Properties, problems: ProblemLog) -> FlowElection | None:
        auth = self._auth(properties, problems)
        if not given(properties, CONNECT):
            properties[ELECTION].refuse(problems, f"requires {CONNECT}", f"add {CONNECT} = host:port")
        if not self.connect:
            return None
        connect = parse_connect(self.connect)

        def election(flow: Flow, heartbeat_interval_ms: int) -> ZooKeeperSettings:
            return ZooKeeperSettings(
                servers=connect.servers,
                path=election_path(connect, flow),
                session_timeout_ms=self.session_timeout_ms,
                heartbeat_interval_ms=heartbeat_interval_ms,
                auth=auth,
            )

        return election

    def _auth(self, properties: Properties, problems: ProblemLog) -> ZooKeeperAuth | None:
        said = given(properties, SCHEME, USERNAME, PASSWORD)
        if said and (missing := [name for name in (SCHEME, USERNAME, PASSWORD) if name not in said]):
            needed = " and ".join(missing)
            properties[said[0]].refuse(problems, f"has no effect without {needed}", f"add {needed}, or remove the line")
        if not (self.scheme and self.username and self.password):
            return None
        return ZooKeeperAuth(scheme=AuthScheme(self.scheme), username=self.username, password=self.password)
