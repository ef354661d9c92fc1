"""``spark.*`` of the file. It goes to Spark as it is; what lanes cannot run with, or should not, is said here."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from mm2.config.flow_clients import ClientRole
from mm2.config.node_keys import RestSettings
from mm2.config.problems import ProblemLog
from mm2.config.settings import FlowSettings
from mm2.config.values import Properties
from mm2.core.listener_settings import ClientAuth, ListenerSettings
from mm2.core.spark_master import is_loopback, read_master

MASTER = "spark.master"
REMOTE = "spark.remote"
API_MODE = "spark.api.mode"
DEPLOY_MODE = "spark.submit.deployMode"

ENCRYPTED = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled", "spark.ssl.enabled")
"""One of them keeps what the driver tells executors from listeners-in; with none Spark's connections are plain."""


def check_spark(
    properties: Properties,
    rest: RestSettings,
    listening: ListenerSettings,
    flows: Sequence[FlowSettings],
    problems: ProblemLog,
) -> None:
    """Report what keeps lanes from running by these settings, or their secrets from staying secret."""
    for name, refused in ((REMOTE, None), (API_MODE, "connect")):
        if (value := properties.get(name)) is not None and refused in (None, value.text.strip().lower()):
            value.refuse(
                problems,
                "cannot be honoured: lanes need the driver's own context, which Spark Connect does not give "
                f"(docs/adr/0008). Remove the line, and write {MASTER} = the cluster's master, such as "
                "spark://host:7077.",
            )
    if (mode := properties.get(DEPLOY_MODE)) is not None and mode.text.strip() != "client":
        mode.refuse(problems, "must be client: the driver is a process of the node's own. Remove the line.")
    if MASTER not in properties:
        return
    try:
        master = read_master(properties[MASTER].text)
    except ValueError as rule:
        properties[MASTER].refuse(problems, f"{rule}. Correct it, or remove it for this machine alone.")
        return
    if master.elsewhere:
        _check_lanes_elsewhere(properties, rest, listening, flows, problems)


def _check_lanes_elsewhere(
    properties: Properties,
    rest: RestSettings,
    listening: ListenerSettings,
    flows: Sequence[FlowSettings],
    problems: ProblemLog,
) -> None:
    line = properties[MASTER]
    if rest.listeners is None and not rest.internal_rest:
        if "listeners" not in properties:  # else that line has been refused
            line.refuse(
                problems,
                "needs listeners: lanes run on other machines then, and ask this node there what to copy. Add "
                "listeners = https://:8443 (docs/spark-clusters.md).",
            )
        return
    urls = rest.listeners or ("http://:8083",)
    scheme = rest.advertised_listener or ("https" if any(url.lower().startswith("https:") for url in urls) else "http")
    _check_reachable(urls, scheme.lower(), rest, properties, problems)
    if _has_secrets(flows):
        if scheme.lower() == "http":
            line.refuse(
                problems,
                "needs an https listener: lanes run on other machines then, and passwords or private keys of clusters "
                "would travel to them in plain text. Add listeners = https://:8443 (docs/spark-clusters.md).",
            )
        elif not any(_is_true(properties, name) for name in ENCRYPTED):
            line.warn(
                problems,
                "hands each lane, over a connection of Spark's that is not encrypted, the token it gets passwords and "
                f"private keys of clusters with. Add {ENCRYPTED[0]} = true and spark.authenticate = true.",
            )
    if scheme.lower() == "https" and listening.tls is not None and listening.tls.client_auth is ClientAuth.REQUIRED:
        line.refuse(
            problems,
            "cannot be had together with ssl.client.auth = required: lanes on other machines have no certificate to "
            "show. Write ssl.client.auth = requested.",
        )


def _check_reachable(
    urls: Sequence[str], scheme: str, rest: RestSettings, properties: Properties, problems: ProblemLog
) -> None:
    """A loopback address is each executor's own machine."""
    url = next((url for url in urls if url.lower().startswith(f"{scheme}:")), urls[0])
    name = "listeners" if rest.advertised_host_name is None else "rest.advertised.host.name"
    host = rest.advertised_host_name or urlsplit(url).hostname or socket.gethostname()
    if is_loopback(host) and name in properties:
        properties[name].refuse(
            problems,
            f"must have a host that the machines of {MASTER} reach: {host} is, for each of them, itself, and lanes "
            "there would not find this node. Write an address of this machine, or none for every interface.",
        )


def _has_secrets(flows: Sequence[FlowSettings]) -> bool:
    clients = (flow.clients.of(role) for flow in flows if flow.enabled for role in ClientRole)
    return any(client.sasl is not None or client.tls.key_pem is not None for client in clients)


def _is_true(properties: Properties, name: str) -> bool:
    return name in properties and properties[name].text.strip().lower() == "true"
