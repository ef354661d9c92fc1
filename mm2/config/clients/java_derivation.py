"""Derivation of Java's property maps from the keys of the file (Kafka: MirrorMakerConfig, MirrorConnectorConfig).

A map keeps the line of every property, so that `mm2 explain` can show the origin of a value.
"""

from __future__ import annotations

from collections.abc import Mapping

from mm2.config.clients import client_keys
from mm2.config.grammar.values import Properties, Value
from mm2.config.keys import declaration
from mm2.config.keys.connector_keys import CONNECTORS
from mm2.config.keys.ignored_java_keys import CONNECTOR
from mm2.config.security import security_keys
from mm2.core.naming.names import Flow

HEARTBEATS = "emit.heartbeats.enabled"

CLIENT_WORDS = ("producer", "consumer", "admin")

CLIENT_NAMES = frozenset({"bootstrap.servers"}) | security_keys.NAMES
"""Keys of a cluster that apply to all its clients (Java: MirrorClientConfig.CLIENT_CONFIG_DEF)."""

LEGACY_NAMES: Mapping[str, str] = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
"""Names of Kafka 2.4 to 2.7."""

ONLY_PER_FLOW = frozenset(
    {"use.defaults.from", "exactly.once.support", "transaction.boundary", "transaction.boundary.interval.ms"}
)
"""Read by connectors, but missing in their ConfigDef: Java drops them without a flow prefix."""

CONNECTOR_NAMES = frozenset(
    (declaration.names(*CONNECTORS) - ONLY_PER_FLOW) | set(CONNECTOR) | (security_keys.NAMES) | set(LEGACY_NAMES)
)
"""Names that apply to the connectors without a prefix."""

WORKER_PREFIXES = (
    "offset.storage",
    "config.storage",
    "status.storage",
    "key.converter",
    "value.converter",
    "header.converter",
    "task",
    "worker",
    "replication.policy",
)
"""Keys that apply to workers without a prefix, and take precedence over ``B.…``. Plain prefixes: ``task`` includes
``tasks.max``."""


def cluster_properties(file: Properties, alias: str) -> Properties:
    """Return the properties ``A.…`` without their prefix. The names of `CLIENT_NAMES` are added for each kind of
    client, first from the cluster, then from the keys without a prefix."""
    properties = _stripped(file, f"{alias}.")
    for name in sorted(CLIENT_NAMES & properties.keys()):
        _fill_clients(properties, name, properties[name])
    for name in sorted(CLIENT_NAMES & file.keys()):
        _fill_clients(properties, name, file[name])
        properties.setdefault(name, file[name])
    return properties


def worker_properties(file: Properties, flow: Flow) -> Properties:
    """Return the properties of the Connect worker of ``flow`` (MirrorMakerConfig.workerConfig)."""
    properties = cluster_properties(file, flow.target)
    for name, value in file.items():
        if name.startswith(WORKER_PREFIXES):
            properties[name] = value
    for name, text in (
        ("client.id", str(flow)),
        ("group.id", f"{flow.source}-mm2"),
        ("offset.storage.topic", f"mm2-offsets.{flow.source}.internal"),
        ("status.storage.topic", f"mm2-status.{flow.source}.internal"),
        ("config.storage.topic", f"mm2-configs.{flow.source}.internal"),
    ):
        properties.setdefault(name, Value(text))
    return properties


def connector_properties(file: Properties, flow: Flow) -> Properties:
    """Return the properties of the connectors of ``flow``, without names (MirrorMakerConfig.connectorBaseConfig)."""
    properties = {
        name: value
        for name, value in file.items()
        if name in CONNECTOR_NAMES or name.startswith(("config.providers", "replication.policy"))
    }
    properties.update(_sided(cluster_properties(file, flow.source), "source"))
    properties.update(_sided(cluster_properties(file, flow.target), "target"))
    properties.setdefault("source.cluster.alias", Value(flow.source))
    properties.setdefault("target.cluster.alias", Value(flow.target))
    properties.update(_stripped(file, f"{flow}."))
    properties.setdefault("enabled", Value("false"))
    for name in (HEARTBEATS, "enabled"):
        if name in properties and reads_as_false(properties[name]):
            properties[name] = Value("false", properties[name].entry)
    _rename_legacy(properties)
    return properties


def reads_as_false(switch: Value) -> bool:
    """Return whether ``switch`` is ``false`` with something behind it, such as a comment.

    Java creates flows with Boolean.parseBoolean, for which everything but ``true`` is false.
    """
    text = switch.text.strip().lower()
    return text.startswith("false") and text != "false"


def connector_client(connector: Properties, side: str, word: str) -> Properties:
    """Return the properties of one of MirrorMaker's own clients: ``side`` is source or target, ``word`` consumer,
    producer or admin (MirrorConnectorConfig.sourceConsumerConfig and similar methods)."""
    cluster = _stripped(connector, f"{side}.cluster.")
    properties = {name: value for name, value in cluster.items() if name in CLIENT_NAMES}
    properties.update(_stripped(connector, f"{word}."))
    properties.update(_stripped(connector, f"{side}.{word}."))
    return properties


def record_producer(worker: Properties, connector: Properties) -> Properties:
    """Return the properties of the record producer: the worker's producer with the connector's overrides (KIP-458)."""
    properties = {name: worker[name] for name in ("bootstrap.servers",) if name in worker}
    properties.update(_stripped(worker, "producer."))
    properties.update(_stripped(connector, "producer.override."))
    return properties


def worker_client(worker: Properties) -> Properties:
    """Return the properties of the client of the flow's group and storage topics: the worker's own."""
    names = declaration.names(client_keys.WorkerClientKeys) | security_keys.NAMES
    return {name: value for name, value in worker.items() if name in names}


def _stripped(properties: Properties, prefix: str) -> Properties:
    return {name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)}


def _sided(cluster: Properties, side: str) -> Properties:
    # Java compares without a dot: A.admin.timeout.ms becomes source.admin.timeout.ms.
    return {
        f"{side}.{name}" if name.startswith(CLIENT_WORDS) else f"{side}.cluster.{name}": value
        for name, value in cluster.items()
    }


def _fill_clients(properties: Properties, name: str, value: Value) -> None:
    for word in CLIENT_WORDS:
        properties.setdefault(f"{word}.{name}", value)


def _rename_legacy(properties: Properties) -> None:
    for legacy, name in LEGACY_NAMES.items():
        if (value := properties.pop(legacy, None)) is not None:
            properties.setdefault(name, value)
