"""Keys of leader election through ZooKeeper.

Those of TLS are the ``ssl.*`` of Java's clients with a prefix, as in the ``zookeeper.ssl.*`` of Kafka's brokers.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, create_model

from mm2.config.grammar.java_types import Boolean, Int, OptionalString, at_least, one_of, refuse
from mm2.config.grammar.problems import ProblemLog, to_copy
from mm2.config.grammar.values import Properties
from mm2.config.keys import declaration
from mm2.config.keys.declaration import key
from mm2.config.keys.election_keys import ELECTION, BackendKeys, FlowElection, given
from mm2.config.keys.update_mode import UpdateMode
from mm2.config.security.security_keys import SecurityKeys
from mm2.config.security.tls.settings import read_tls
from mm2.core.naming.names import Flow
from mm2.core.settings.tls import TlsSettings
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
TLS = "mm2.zookeeper.ssl.client.enable"
PREFIX = "mm2.zookeeper."
_KEY_STORE = ("location", "key")
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


class _OwnKeys(BackendKeys):
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

    ssl_client_enable: Boolean = key(
        TLS, False, "Use TLS to connect to ZooKeeper (its `secureClientPort`).", update_mode=UpdateMode.NODE
    )

    def elections(self, properties: Properties, problems: ProblemLog) -> FlowElection | None:
        auth = self._auth(properties, problems)
        tls = self._tls(properties, problems)
        if not given(properties, CONNECT):
            properties[ELECTION].refuse(problems, f"requires {CONNECT}", f"add {CONNECT} = host:port")
        if not self.connect:
            return None
        connect = parse_connect(self.connect)
        if not given(properties, SCHEME, USERNAME, PASSWORD, *(f"{PREFIX}ssl.keystore.{name}" for name in _KEY_STORE)):
            properties[CONNECT].warn(
                problems,
                "nodes do not authenticate: every client that can connect to ZooKeeper can take over the flows",
                "replace USER and PASSWORD, and add:"
                + to_copy(f"{SCHEME} = digest", f"{USERNAME} = USER", f"{PASSWORD} = PASSWORD"),
            )

        def election(flow: Flow, heartbeat_interval_ms: int) -> ZooKeeperSettings:
            return ZooKeeperSettings(
                servers=connect.servers,
                path=election_path(connect, flow),
                session_timeout_ms=self.session_timeout_ms,
                heartbeat_interval_ms=heartbeat_interval_ms,
                auth=auth,
                tls=tls,
            )

        return election

    def _tls(self, properties: Properties, problems: ProblemLog) -> TlsSettings | None:
        own = {name.removeprefix(PREFIX): value for name, value in properties.items() if name in _TLS_KEYS}
        if self.ssl_client_enable:
            return read_tls(own, declaration.read(SecurityKeys, own, problems), problems)
        for name in given(properties, *sorted(_TLS_KEYS)):
            properties[name].warn(
                problems, f"has no effect without {TLS} = true", f"add {TLS} = true, or remove the line"
            )
        return None

    def _auth(self, properties: Properties, problems: ProblemLog) -> ZooKeeperAuth | None:
        said = given(properties, SCHEME, USERNAME, PASSWORD)
        if said and (missing := [name for name in (SCHEME, USERNAME, PASSWORD) if name not in said]):
            needed = " and ".join(missing)
            properties[said[0]].refuse(problems, f"has no effect without {needed}", f"add {needed}, or remove the line")
        if not (self.scheme and self.username and self.password):
            return None
        return ZooKeeperAuth(scheme=AuthScheme(self.scheme), username=self.username, password=self.password)


def _tls_fields() -> dict[str, Any]:
    """Return the fields of ``ssl.*`` with our prefix."""
    infos = {field: info for field, info in SecurityKeys.model_fields.items() if str(info.alias).startswith("ssl.")}
    return {
        field: (
            Annotated[info.annotation, *info.metadata],
            key(f"{PREFIX}{info.alias}", info.default, str(info.description), update_mode=UpdateMode.NODE, local=True),
        )
        for field, info in infos.items()
    }


ZooKeeperKeys = create_model("ZooKeeperKeys", __base__=_OwnKeys, **_tls_fields())
_TLS_KEYS = declaration.names(ZooKeeperKeys) - declaration.names(_OwnKeys)
