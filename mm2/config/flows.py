"""Reads all settings of one flow."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from mm2.config.clients import java_derivation
from mm2.config.clients.client_reader import ClientReader
from mm2.config.clients.flow_clients import property_maps, read_clients
from mm2.config.exactly_once_checks import ExactlyOnceChecks
from mm2.config.flow_checks import check_acks, check_enabled_flow, check_signatures, check_source_tasks
from mm2.config.grammar.values import Properties
from mm2.config.keys import declaration, sql_keys
from mm2.config.keys.connector_keys import CheckpointSettings, HeartbeatSettings, SourceSettings
from mm2.config.keys.java_converters import changing_converters
from mm2.config.keys.node_keys import OwnFlowSettings
from mm2.config.keys.worker_keys import StorageTopic, StorageTopics, WorkerSettings
from mm2.config.plugins.plugin_reader import PluginReader
from mm2.config.settings import FlowSettings
from mm2.config.sql.query_reader import QueryReader
from mm2.core.naming.names import Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowProperties:
    """Java's property maps of one flow, and our own keys; ``sql`` are those of SQL flows."""

    connector: Properties
    worker: Properties
    clients: dict[str, Properties]
    own: Properties
    sql: Properties

    @classmethod
    def of(cls, file: Properties, flow: Flow) -> FlowProperties:
        """Return the maps of ``flow``."""
        worker = java_derivation.worker_properties(file, flow)
        connector = java_derivation.connector_properties(file, flow)
        own = {name: file[name] for name in declaration.names(OwnFlowSettings) if name in file}
        own |= {name: connector[name] for name in declaration.names(OwnFlowSettings) if name in connector}
        return cls(
            connector=connector,
            worker=worker,
            clients=property_maps(flow, worker, connector),
            own=own,
            sql=sql_keys.of_flow(file, connector),
        )


def read_flow(file: FlowProperties, flow: Flow, reader: ClientReader, directory: Path) -> FlowSettings:
    """Return the settings of ``flow`` from a file in ``directory``; problems go to the reader's log."""
    problems = reader.problems
    source = declaration.read(SourceSettings, file.connector, problems)
    checkpoint = declaration.read(CheckpointSettings, file.connector, problems)
    heartbeat = declaration.read(HeartbeatSettings, file.connector, problems)
    worker = declaration.read(WorkerSettings, file.worker, problems)

    check_signatures(file.worker, worker, problems)
    own = declaration.read(OwnFlowSettings, file.own, problems)
    clients = read_clients(file.clients, flow, worker.group_id, reader)
    plugins = PluginReader(flow=flow, properties=file.connector, source=source, directory=directory, problems=problems)
    settings = FlowSettings(
        flow=flow,
        enabled=source.enabled,
        heartbeats=heartbeat.emit_heartbeats_enabled,
        source=source,
        checkpoint=checkpoint,
        heartbeat=heartbeat,
        worker=worker,
        storage=_storage(file.worker, worker),
        own=own,
        clients=replace(clients, fetch=replace(clients.fetch, start=own.start)),
        policy=plugins.policy(),
        topic_filter=plugins.topic_filter(),
        group_filter=plugins.group_filter(checkpoint),
        config_property_filter=plugins.property_filter(),
        admin=plugins.admin(),
        queries=QueryReader(keys=file.sql, enabled=source.enabled, directory=directory, problems=problems).read(),
        converters=tuple(changing_converters(file.worker, file.connector)),
    )
    if source.enabled:
        if not worker.exactly_once:  # it has errors of its own
            check_acks(file.clients["record_producer"], settings.clients.produce, problems)
        check_enabled_flow(file.connector, source, checkpoint, problems)
        check_source_tasks(file.connector, source, len(settings.queries.in_order), problems)
        ExactlyOnceChecks(file.connector, file.worker, file.clients, settings, problems).run()
    return settings


def _storage(properties: Properties, worker: WorkerSettings) -> StorageTopics:
    return StorageTopics(
        offsets=StorageTopic(
            name=worker.offset_storage_topic,
            partitions=worker.offset_storage_partitions,
            replication_factor=worker.offset_storage_replication_factor,
            configs=_topic_configs(properties, "offset.storage."),
        ),
        statuses=StorageTopic(
            name=worker.status_storage_topic,
            partitions=worker.status_storage_partitions,
            replication_factor=worker.status_storage_replication_factor,
            configs=_topic_configs(properties, "status.storage."),
        ),
        configs=StorageTopic(
            name=worker.config_storage_topic,
            partitions=1,
            replication_factor=worker.config_storage_replication_factor,
            configs=_topic_configs(properties, "config.storage."),
        ),
    )


def _topic_configs(properties: Properties, prefix: str) -> tuple[tuple[str, str], ...]:
    configs = storage_configs(properties).items()
    return tuple(
        sorted((name.removeprefix(prefix), value.text.strip()) for name, value in configs if name.startswith(prefix))
    )


_STORAGE_CONFIG = re.compile(
    r"(?:offset|status|config)\.storage\.(?!(?:topic|partitions|replication\.factor|cleanup\.policy)$).*"
)
"""Topic settings of a storage topic; its cleanup policy is always compact."""


def storage_configs(worker: Properties) -> Properties:
    """Return the properties of a worker that are topic settings of its storage topics."""
    return {name: value for name, value in worker.items() if _STORAGE_CONFIG.fullmatch(name)}
