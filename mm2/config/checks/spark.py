"""Check of ``spark.*``, which Spark receives unchanged: settings that lanes cannot run with, or that leak secrets."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.values import Properties, Value
from mm2.config.keys.node_keys import OwnSettings, RestSettings
from mm2.config.lane_counts import lanes_of, sql_lanes_of
from mm2.config.settings import FlowSettings
from mm2.core.settings.listener import ClientAuth, ListenerSettings
from mm2.core.settings.spark_master import is_loopback, read_master

MASTER = "spark.master"
REMOTE = "spark.remote"
API_MODE = "spark.api.mode"
DEPLOY_MODE = "spark.submit.deployMode"

ENCRYPTED = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled", "spark.ssl.enabled")
"""Each of them encrypts the connections between driver and executors; by default these are plain text."""


def check_spark(
    properties: Properties,
    rest: RestSettings,
    listening: ListenerSettings,
    flows: Sequence[FlowSettings],
    problems: ProblemLog,
) -> None:
    """Add an error for settings with which lanes cannot run or would expose secrets."""
    check_modes(properties, problems)
    if MASTER not in properties:
        return
    try:
        master = read_master(properties[MASTER].text)
    except ValueError as rule:
        properties[MASTER].refuse(problems, str(rule), "correct the line, or remove it to run lanes on this machine")
        return
    if master.elsewhere:
        _check_lanes_elsewhere(properties, rest, listening, flows, problems)


def check_modes(properties: Properties, problems: ProblemLog) -> None:
    """Add an error for settings with which Spark would start in a way that cannot run lanes."""
    for name, refused in ((REMOTE, None), (API_MODE, "connect")):
        if (value := properties.get(name)) is not None and refused in (None, value.text.strip().lower()):
            value.refuse(
                problems,
                "not supported: lanes need the SparkContext of the driver, which Spark Connect does not provide "
                "(docs/adr/0008)",
                f"remove the line, and write {MASTER} = the cluster's master, such as spark://host:7077",
            )
    if (mode := properties.get(DEPLOY_MODE)) is not None and mode.text.strip() != "client":
        mode.refuse(problems, "must be client: the driver is a process of this node", "remove the line")


def check_threads(
    properties: Properties, own: OwnSettings, flows: Sequence[FlowSettings], problems: ProblemLog
) -> None:
    """Warn if the engine of this machine cannot run all lanes at the same time: the others would not start."""
    try:
        master = read_master(properties[MASTER].text) if MASTER in properties else None
    except ValueError:
        return  # an error of `check_spark`
    if master is None or master.is_cluster:
        return
    lanes = lanes_of(own)
    sql_lanes = sql_lanes_of(flows, lanes=lanes)
    threads = master.threads or os.cpu_count() or 1
    if threads < lanes + sql_lanes:
        for_queries = f" and {sql_lanes} for queries" if sql_lanes else ""
        properties[MASTER].warn(
            problems,
            f"runs {threads} lanes at the same time, but up to {lanes}{for_queries} are needed (mm2.lanes ="
            f" {lanes}{'' if own.lanes else ', the number of cores'})",
            f"remove the line, or write {MASTER} = local[{lanes + sql_lanes},4]",
        )


def _check_lanes_elsewhere(
    properties: Properties,
    rest: RestSettings,
    listening: ListenerSettings,
    flows: Sequence[FlowSettings],
    problems: ProblemLog,
) -> None:
    line = properties[MASTER]
    if rest.listeners is None and not rest.internal_rest:
        if "listeners" not in properties:  # if set, its value has an error already
            line.refuse(
                problems,
                "requires listeners: lanes on other machines receive their work from this node over REST",
                "add listeners = https://:8443 (docs/how-to/spark-clusters.md)",
            )
        return
    urls = rest.listeners or ("http://:8083",)
    scheme = rest.advertised_listener or ("https" if any(url.lower().startswith("https:") for url in urls) else "http")
    _check_reachable(urls, scheme.lower(), rest, properties, problems)
    if _has_secrets(flows):
        if scheme.lower() == "http":
            line.refuse(
                problems,
                "requires an https listener: passwords or private keys of clusters would be sent to lanes on other "
                "machines in plain text",
                "write listeners = https://:8443 (docs/how-to/spark-clusters.md)",
            )
        else:
            _check_encrypted(
                line, properties, "the token with which it requests passwords and private keys of clusters", problems
            )
    elif scheme.lower() == "https" and listening.tls is not None and listening.tls.client_auth is ClientAuth.REQUIRED:
        _check_encrypted(line, properties, "the certificate with which it connects to this node", problems)


def _check_encrypted(line: Value, properties: Properties, what: str, problems: ProblemLog) -> None:
    """Add a warning if Spark sends the tasks of lanes, which contain ``what``, in plain text."""
    if not any(_is_true(properties, name) for name in ENCRYPTED):
        line.warn(
            problems,
            f"Spark sends each lane, unencrypted, {what}",
            f"add {ENCRYPTED[0]} = true and spark.authenticate = true",
        )


def _check_reachable(
    urls: Sequence[str], scheme: str, rest: RestSettings, properties: Properties, problems: ProblemLog
) -> None:
    """Add an error if lanes would connect to a loopback address, which is that of their own machine."""
    url = next((url for url in urls if url.lower().startswith(f"{scheme}:")), urls[0])
    name = "listeners" if rest.advertised_host_name is None else "rest.advertised.host.name"
    host = rest.advertised_host_name or urlsplit(url).hostname or socket.gethostname()
    if is_loopback(host) and name in properties:
        properties[name].refuse(
            problems,
            f"must have a host that the machines of {MASTER} can reach: lanes would connect to {host} on their own "
            "machine, not to this node",
            _reachable(name, url),
        )


def _reachable(name: str, url: str) -> str:
    if name != "listeners":
        return "write the host name or an address of this machine"
    parts = urlsplit(url)
    return f"write {parts.scheme}://:{parts.port} to listen on all interfaces, or use an address of this machine"


def _has_secrets(flows: Sequence[FlowSettings]) -> bool:
    clients = (flow.clients.of(role) for flow in flows if flow.enabled for role in ClientRole)
    return any(client.sasl is not None or client.tls.key_pem is not None for client in clients)


def _is_true(properties: Properties, name: str) -> bool:
    return name in properties and properties[name].text.strip().lower() == "true"
