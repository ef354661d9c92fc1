"""From the keys of the file to Java's property maps, step by step as Java derives them (mm2-compat §1.5-§1.7).

A map keeps for every property the line it came from, so that one can be told why a value is what it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from mm2.config import client_keys, keys, security_keys
from mm2.config.connectors import CONNECTORS
from mm2.config.java_only import CONNECTOR
from mm2.config.values import Properties, Value
from mm2.core.names import Flow

CLIENT_WORDS = ("producer", "consumer", "admin")

CLIENT_NAMES = frozenset({"bootstrap.servers"}) | security_keys.NAMES
"""What a cluster tells all its clients (Java: MirrorClientConfig.CLIENT_CONFIG_DEF)."""

LEGACY_NAMES: Mapping[str, str] = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
"""Names of Kafka 2.4 to 2.7 (mm2-compat §1.3)."""

ONLY_PER_FLOW = frozenset({"use.defaults.from"})
"""Read by connectors, but no name of their definitions: Java drops it where it stands alone (trap T9)."""

CONNECTOR_NAMES = frozenset(
    (keys.names(*CONNECTORS) - ONLY_PER_FLOW) | set(CONNECTOR) | (security_keys.NAMES) | set(LEGACY_NAMES)
)
"""Names that reach the connectors when they stand alone."""

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
"""What reaches workers when it stands alone, and then wins over ``B.…``. Plain prefixes: ``tasks.max`` is one too."""


def cluster_properties(file: Properties, alias: str) -> Properties:
    """``A.…`` without its prefix, the names of `CLIENT_NAMES` filled in for each kind of client, first from the
    cluster, then from the top of the file."""
    properties = _stripped(file, f"{alias}.")
    for name in sorted(CLIENT_NAMES & properties.keys()):
        _fill_clients(properties, name, properties[name])
    for name in sorted(CLIENT_NAMES & file.keys()):
        _fill_clients(properties, name, file[name])
        properties.setdefault(name, file[name])
    return properties


def worker_properties(file: Properties, flow: Flow) -> Properties:
    """What the Connect worker of ``flow`` is told (mm2-compat §1.5)."""
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
    """What the connectors of ``flow`` are told (mm2-compat §1.6); the three differ in their names only."""
    properties = {
        name: value
        for name, value in file.items()
        if name in CONNECTOR_NAMES or name.startswith(("config.providers", "replication.policy"))
    }
    properties.update(_sided(cluster_properties(file, flow.source), "source"))
    properties.update(_sided(cluster_properties(file, flow.target), "target"))
    properties.update(_stripped(file, f"{flow}."))
    properties.setdefault("enabled", Value("false"))
    _rename_legacy(properties)
    return properties


def connector_client(connector: Properties, side: str, word: str) -> Properties:
    """A client of MirrorMaker itself: ``side`` is source or target, ``word`` consumer, producer or admin
    (mm2-compat §1.7)."""
    cluster = _stripped(connector, f"{side}.cluster.")
    properties = {name: value for name, value in cluster.items() if name in CLIENT_NAMES}
    properties.update(_stripped(connector, f"{word}."))
    properties.update(_stripped(connector, f"{side}.{word}."))
    return properties


def record_producer(worker: Properties, connector: Properties) -> Properties:
    """The client that writes the records: the worker's producer, overridden by the connector (mm2-compat §1.7)."""
    properties = {name: worker[name] for name in ("bootstrap.servers",) if name in worker}
    properties.update(_stripped(worker, "producer."))
    properties.update(_stripped(connector, "producer.override."))
    return properties


def worker_client(worker: Properties) -> Properties:
    """The client of the flow's group and storage topics: the worker's own properties."""
    names = keys.names(client_keys.WorkerClientKeys) | security_keys.NAMES
    return {name: value for name, value in worker.items() if name in names}


def _stripped(properties: Properties, prefix: str) -> Properties:
    return {name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)}


def _sided(cluster: Properties, side: str) -> Properties:
    # Java tests for the words alone, without a dot: A.admin.timeout.ms becomes source.admin.timeout.ms.
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
