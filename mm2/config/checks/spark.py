"""Check of ``spark.*``, which Spark receives unchanged: settings that lanes cannot run with, or that leak secrets."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from mm2.config.checks.spark_keys import check_spark_keys
from mm2.config.clients.flow_clients import ClientRole
from mm2.config.grammar.problems import ProblemLog, to_copy
from mm2.config.grammar.values import Properties
from mm2.config.keys.node_keys import EngineSettings, OwnSettings, RestSettings
from mm2.config.lane_counts import lanes_of, sql_lanes_of
from mm2.config.settings import FlowSettings
from mm2.core.settings.spark_master import SparkMaster, is_loopback, read_master

MASTER = "spark.master"
REMOTE = "spark.remote"
API_MODE = "spark.api.mode"
DEPLOY_MODE = "spark.submit.deployMode"

AUTHENTICATE = "spark.authenticate"
SHARED = "spark.authenticate.secret"
INSECURE = "mm2.spark.insecure"
ENCRYPTED = ("spark.network.crypto.enabled", "spark.authenticate.enableSaslEncryption", "spark.ssl.rpc.enabled")
"""Each of them encrypts the connections between driver and executors; by default these are plain text.

Not spark.ssl.enabled, which spark.ssl.rpc.enabled does not inherit.
"""

LISTENING = ("spark.driver.bindAddress", "spark.driver.host")


def check_spark(
    properties: Properties,
    own: EngineSettings,
    rest: RestSettings,
    flows: Sequence[FlowSettings],
    problems: ProblemLog,
) -> None:
    """Add an error for settings with which lanes cannot run or would expose secrets."""
    check_modes(properties, problems)
    master = checked_master(properties, problems)
    if master is None:
        return
    check_spark_keys(properties, master, flows, problems)
    if master.elsewhere:
        _check_lanes_elsewhere(properties, rest, flows, problems)
    check_protection(master, properties, own, problems)


def checked_master(properties: Properties, problems: ProblemLog) -> SparkMaster | None:
    """Return where lanes run. If the file does not say that in a valid way, add an error and return None."""
    if MASTER not in properties:
        return read_master("local")
    try:
        return read_master(properties[MASTER].text)
    except ValueError as rule:
        properties[MASTER].refuse(problems, str(rule), "correct the line, or remove it to run lanes on this machine")
        return None


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


def check_protection(master: SparkMaster, properties: Properties, own: EngineSettings, problems: ProblemLog) -> None:
    """Add an error if others can read what Spark sends to lanes: the tokens that grant the passwords of the clusters.

    That is any user of the machine in local mode, and any host of the network on a cluster.
    """
    switched_off = AUTHENTICATE in properties and not _is_true(properties, AUTHENTICATE)
    if switched_off and not master.addresses and not _is_kubernetes(master):
        properties[AUTHENTICATE].refuse(
            problems,
            "must be true: otherwise every user of this machine can read the tokens of lanes, and with them the "
            "passwords of the clusters",
            "remove the line",
        )
    if not master.is_cluster:
        _check_loopback(properties, problems)
        if own.spark_insecure:
            properties[INSECURE].warn(problems, "has no effect without a Spark cluster", "remove the line")
    elif missing := _missing(master, properties):
        line = properties[MASTER]
        what = "others can read what Spark sends to lanes, such as the token for the passwords of the clusters"
        if own.spark_insecure:
            line.warn(problems, f"{what}, as {INSECURE} is set", _protect(missing))
        else:
            line.refuse(
                problems,
                f"requires authentication and encryption: otherwise {what}",
                _protect(missing, f", or {INSECURE} = true if no one else can connect to it"),
            )


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
    sql_lanes = sql_lanes_of(flows, lanes=lanes)  # in an engine of their own, which gets as many threads
    threads = master.threads or os.cpu_count() or 1
    if threads < max(lanes, sql_lanes):
        for_queries = f" and {sql_lanes} for queries" if sql_lanes else ""
        properties[MASTER].warn(
            problems,
            f"runs {threads} lanes at the same time, but up to {lanes}{for_queries} are needed (mm2.lanes ="
            f" {lanes}{'' if own.lanes else ', the number of cores'})",
            f"remove the line, or write {MASTER} = local[{max(lanes, sql_lanes)}]",
        )


def _check_lanes_elsewhere(
    properties: Properties,
    rest: RestSettings,
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
    if _has_secrets(flows) and scheme.lower() == "http":
        line.refuse(
            problems,
            "requires an https listener: passwords or private keys of clusters would be sent to lanes on other "
            "machines in plain text",
            "write listeners = https://:8443 (docs/how-to/spark-clusters.md)",
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


def _missing(master: SparkMaster, properties: Properties) -> list[str]:
    """Return the lines that protect the connections of a cluster and that the file does not have.

    On YARN and Kubernetes these are settings of the engine, unless the file changes them.
    """
    missing = []
    encrypted = [name for name in ENCRYPTED if name in properties]
    if not any(_is_true(properties, name) for name in encrypted) and (master.addresses or encrypted):
        missing.append(f"{ENCRYPTED[0]} = true")
    if master.addresses:
        if not _is_true(properties, AUTHENTICATE):
            missing.append(f"{AUTHENTICATE} = true")
        if SHARED not in properties:
            missing.append(f"{SHARED} = SECRET")
    elif _is_kubernetes(master) and AUTHENTICATE in properties and not _is_true(properties, AUTHENTICATE):
        missing.append(f"{AUTHENTICATE} = true")
    return missing


def _is_kubernetes(master: SparkMaster) -> bool:
    return master.url.startswith("k8s:")


def _protect(missing: Sequence[str], instead: str = "") -> str:
    secret = ", with the secret of the cluster" if any(line.startswith(SHARED) for line in missing) else ""
    return f"add these lines{secret} (docs/how-to/spark-clusters.md){instead}:{to_copy(*missing)}"


def _check_loopback(properties: Properties, problems: ProblemLog) -> None:
    """Warn if Spark can be reached from other machines although all lanes run here."""
    for name in LISTENING:
        if (value := properties.get(name)) is not None and not is_loopback(value.text.strip()):
            value.warn(problems, "opens Spark to other machines, although all lanes run here", "remove the line")
