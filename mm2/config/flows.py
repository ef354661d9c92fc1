"""One flow of the file, read whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mm2.config import derive, keys
from mm2.config.clients import ClientReader
from mm2.config.connectors import CheckpointSettings, HeartbeatSettings, SourceSettings
from mm2.config.flow_clients import property_maps, read_clients
from mm2.config.node_keys import OwnFlowSettings
from mm2.config.plugins import PluginReader
from mm2.config.problems import ProblemLog
from mm2.config.settings import FlowSettings
from mm2.config.values import Properties
from mm2.config.worker import StorageTopic, StorageTopics, WorkerSettings
from mm2.core.names import Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowProperties:
    """Java's property maps of one flow, and those of our own keys."""

    connector: Properties
    worker: Properties
    clients: dict[str, Properties]
    own: Properties

    @classmethod
    def of(cls, file: Properties, flow: Flow) -> FlowProperties:
        """Derive all of them."""
        worker = derive.worker_properties(file, flow)
        connector = derive.connector_properties(file, flow)
        own = {name: file[name] for name in keys.names(OwnFlowSettings) if name in file}
        own |= {name: connector[name] for name in keys.names(OwnFlowSettings) if name in connector}
        return cls(connector=connector, worker=worker, clients=property_maps(flow, worker, connector), own=own)


def read_flow(file: FlowProperties, flow: Flow, reader: ClientReader, directory: Path) -> FlowSettings:
    """Everything about ``flow`` of a file in ``directory``; what is wrong with it goes to the reader's log."""
    problems = reader.problems
    source = keys.read(SourceSettings, file.connector, problems)
    checkpoint = keys.read(CheckpointSettings, file.connector, problems)
    heartbeat = keys.read(HeartbeatSettings, file.connector, problems)
    worker = keys.read(WorkerSettings, file.worker, problems)

    _check_signatures(file.worker, worker, problems)
    plugins = PluginReader(flow=flow, properties=file.connector, source=source, directory=directory, problems=problems)
    if source.enabled:
        _check_offset_syncs(file.connector, source, problems)
        _check_checkpoints(file.connector, source, checkpoint, problems)
    return FlowSettings(
        flow=flow,
        enabled=source.enabled,
        heartbeats=heartbeat.emit_heartbeats_enabled,
        source=source,
        checkpoint=checkpoint,
        heartbeat=heartbeat,
        worker=worker,
        storage=_storage(file.worker, worker),
        own=keys.read(OwnFlowSettings, file.own, problems),
        clients=read_clients(file.clients, flow, worker.group_id, reader),
        policy=plugins.policy(),
        topic_filter=plugins.topic_filter(),
        group_filter=plugins.group_filter(checkpoint),
        config_property_filter=plugins.property_filter(),
        admin=plugins.admin(),
    )


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
    configs = {
        name.removeprefix(prefix): value.text.strip() for name, value in properties.items() if name.startswith(prefix)
    }
    for name in STORAGE_WORDS:
        configs.pop(name, None)
    return tuple(sorted(configs.items()))


STORAGE_WORDS = ("topic", "partitions", "replication.factor", "cleanup.policy")
"""What is no setting of a storage topic behind ``offset.storage.``; its cleanup policy is always compact."""


def _check_signatures(properties: Properties, worker: WorkerSettings, problems: ProblemLog) -> None:
    """Nodes must accept what they sign themselves. Java asks for the same."""
    signature, accepted = worker.inter_worker_signature_algorithm, worker.inter_worker_verification_algorithms
    if signature not in accepted:
        name = next(
            name
            for name in ("inter.worker.signature.algorithm", "inter.worker.verification.algorithms")
            if name in properties
        )
        properties[name].refuse(
            problems,
            f"makes nodes refuse each other: they would sign with {signature} and accept {', '.join(accepted)}. Let "
            "inter.worker.verification.algorithms list inter.worker.signature.algorithm.",
        )


def _check_offset_syncs(properties: Properties, source: SourceSettings, problems: ProblemLog) -> None:
    """Java's cross-check: no settings of offset syncs without offset syncs."""
    if source.emit_offset_syncs_enabled:
        return
    for name, value in properties.items():
        if name.startswith("offset-syncs"):
            value.refuse(
                problems,
                "must not be set beside emit.offset-syncs.enabled = false, as in Java. Remove one of the two lines.",
            )


def _check_checkpoints(
    properties: Properties, source: SourceSettings, checkpoint: CheckpointSettings, problems: ProblemLog
) -> None:
    """Where Java would not create the checkpoint connector, and log an error: say what is missing then."""
    if not checkpoint.emit_checkpoints_enabled:
        if checkpoint.sync_group_offsets_enabled:
            properties["sync.group.offsets.enabled"].warn(
                problems,
                "has no effect beside emit.checkpoints.enabled = false: group offsets are synced from checkpoints, as "
                "in Java. Remove one of the two lines.",
            )
    elif not source.emit_offset_syncs_enabled:
        properties["emit.offset-syncs.enabled"].warn(
            problems,
            "leaves the flow without checkpoints and synced group offsets, which are made from offset syncs, as in "
            "Java. Add emit.checkpoints.enabled = false if that is meant, or remove the line.",
        )
