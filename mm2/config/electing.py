"""What nodes elect a leader with: the keys, and what they mean together."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator

from mm2.config import keys
from mm2.config.java_types import Int, OptionalString, String, at_least, one_of, refuse
from mm2.config.keys import KeyModel, key
from mm2.config.problems import ProblemLog
from mm2.config.reach import Reach
from mm2.config.settings import FlowSettings
from mm2.config.values import Properties
from mm2.core.zookeeper_connect import ZooKeeperConnect, parse_connect
from mm2.core.zookeeper_settings import (
    SESSION_TIMEOUT_MS,
    AuthScheme,
    ZooKeeperAuth,
    ZooKeeperSettings,
    election_path,
)

ELECTION = "mm2.election"
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
        raise refuse("must be without a colon: both schemes put user and password together with one")
    return text


class ElectionSettings(KeyModel):
    """Keys of our own; Java ignores them. What they need of each other, `read_elections` looks at."""

    election: Annotated[String, one_of("kafka", "zookeeper")] = key(
        ELECTION,
        "kafka",
        "What nodes elect a leader with: the flow's Kafka group, or ZooKeeper.",
        reach=Reach.NODE,
    )
    connect: Annotated[OptionalString, AfterValidator(_connect)] = key(
        CONNECT,
        None,
        "ZooKeeper servers and root, `host:port,…/path`. All nodes of a flow need the same.",
        reach=Reach.NODE,
    )
    scheme: Annotated[OptionalString, one_of("digest", "sasl")] = key(
        SCHEME,
        None,
        "How nodes prove who they are to ZooKeeper: `digest`, or `sasl` (DIGEST-MD5). Without it: not at all.",
        reach=Reach.NODE,
    )
    username: Annotated[OptionalString, AfterValidator(_username)] = key(
        USERNAME, None, "The user that all znodes belong to.", reach=Reach.NODE
    )
    password: OptionalString = key(PASSWORD, None, "That user's password (secret).", reach=Reach.NODE)
    session_timeout_ms: Annotated[
        Int, at_least(SHORTEST_SESSION_MS, "a busy machine would be taken for a dead one")
    ] = key(
        SESSION_TIMEOUT,
        SESSION_TIMEOUT_MS,
        "How long a node that is not heard of is waited for, and how long ZooKeeper may be away; its servers may give "
        "another one (2 to 20 of their ticks).",
        reach=Reach.NODE,
    )


def read_elections(
    flows: tuple[FlowSettings, ...], properties: Properties, problems: ProblemLog
) -> tuple[FlowSettings, ...]:
    """The flows with what they elect a leader by; what is wrong goes to ``problems``."""
    told = keys.read(ElectionSettings, properties, problems)
    if told.election == "kafka":
        _check_idle(properties, problems)
        return flows
    auth = _read_auth(told, properties, problems)
    if not _said(properties, CONNECT):
        properties[ELECTION].refuse(problems, f"needs {CONNECT} = host:port. Add it.")
    if not told.connect:
        return flows
    connect = parse_connect(told.connect)
    return tuple(replace(flow, zookeeper=_of_flow(flow, told, connect, auth)) for flow in flows)


def _of_flow(
    flow: FlowSettings, told: ElectionSettings, connect: ZooKeeperConnect, auth: ZooKeeperAuth | None
) -> ZooKeeperSettings:
    return ZooKeeperSettings(
        servers=connect.servers,
        path=election_path(connect, flow.flow),
        session_timeout_ms=told.session_timeout_ms,
        heartbeat_interval_ms=flow.worker.heartbeat_interval_ms,
        auth=auth,
    )


def _read_auth(told: ElectionSettings, properties: Properties, problems: ProblemLog) -> ZooKeeperAuth | None:
    said = _said(properties, SCHEME, USERNAME, PASSWORD)
    if said and (missing := [name for name in (SCHEME, USERNAME, PASSWORD) if name not in said]):
        properties[said[0]].refuse(
            problems, f"needs {' and '.join(missing)} beside it to prove anything. Add what is missing, or remove it."
        )
    if not (told.scheme and told.username and told.password):
        return None
    return ZooKeeperAuth(scheme=AuthScheme(told.scheme), username=told.username, password=told.password)


def _check_idle(properties: Properties, problems: ProblemLog) -> None:
    if ELECTION in properties and properties[ELECTION].text.strip() != "kafka":
        return  # and that was refused
    for name in _said(properties, *sorted(keys.names(ElectionSettings) - {ELECTION})):
        properties[name].warn(
            problems,
            f"has no effect: nodes elect by Kafka's groups. Add {ELECTION} = zookeeper, or remove the line.",
        )


def _said(properties: Properties, *names: str) -> list[str]:
    """Those that the file gives a value."""
    return [name for name in names if name in properties and properties[name].text.strip()]
