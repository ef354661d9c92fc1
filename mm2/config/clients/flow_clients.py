"""The clients of one flow by role, with the client IDs of Java."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from mm2.config.clients import java_derivation
from mm2.config.clients.client_keys import AdminKeys, ClientKeys, ConsumerKeys, ProducerKeys, WorkerClientKeys
from mm2.config.clients.client_reader import ClientReader
from mm2.config.grammar.values import Properties
from mm2.core.naming.names import Flow
from mm2.core.settings.client import ClientSettings, FetchSettings, ProduceSettings

_SOURCE = "MirrorSourceConnector"
_CHECKPOINT = "MirrorCheckpointConnector"
_HEARTBEAT = "MirrorHeartbeatConnector"


class ClientRole(StrEnum):
    """Purpose of a client; mostly the suffix that Java adds to its client.id."""

    REPLICATION_CONSUMER = "replication-consumer"
    REPLICATION_SOURCE_ADMIN = "replication-source-admin"
    REPLICATION_TARGET_ADMIN = "replication-target-admin"
    OFFSET_SYNCS_SOURCE_PRODUCER = "offset-syncs-source-producer"
    OFFSET_SYNCS_TARGET_PRODUCER = "offset-syncs-target-producer"
    OFFSET_SYNCS_SOURCE_ADMIN = "offset-syncs-source-admin"
    OFFSET_SYNCS_TARGET_ADMIN = "offset-syncs-target-admin"
    OFFSET_SYNCS_SOURCE_CONSUMER = "offset-syncs-source-consumer"
    OFFSET_SYNCS_TARGET_CONSUMER = "offset-syncs-target-consumer"
    CHECKPOINT_SOURCE_ADMIN = "checkpoint-source-admin"
    CHECKPOINT_TARGET_ADMIN = "checkpoint-target-admin"
    CHECKPOINTS_TARGET_CONSUMER = "checkpoints-target-consumer"
    HEARTBEATS_TARGET_ADMIN = "heartbeats-target-admin"
    RECORDS = "records"
    CHECKPOINTS = "checkpoints"
    HEARTBEATS = "heartbeats"
    GROUP_MEMBER = "group-member"
    SHARED_ADMIN = "shared-admin"
    OFFSETS = "offsets"
    STATUSES = "statuses"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowClients:
    """Settings by side and kind; `of` returns those of a role with its client ID. The client_id of the fields is
    ``A->B``, with the user's client.id as prefix."""

    source_consumer: ClientSettings
    source_producer: ClientSettings
    source_admin: ClientSettings
    target_consumer: ClientSettings
    target_producer: ClientSettings
    target_admin: ClientSettings
    record_producer: ClientSettings
    worker: ClientSettings
    fetch: FetchSettings
    produce: ProduceSettings
    group_id: str
    record_client_id: str | None

    def of(self, role: ClientRole, task: int | None = None) -> ClientSettings:
        """Return the settings for ``role`` with Java's client.id; ``task`` is the task of the connector, if any."""
        suffix = "" if task is None else f"-{task}"
        if role in _OF_CONNECTORS:
            client, connector = _OF_CONNECTORS[role]
            settings: ClientSettings = getattr(self, client)
            return replace(settings, client_id=f"{settings.client_id}|{connector}{suffix}|{role}")
        if role in _RECORD_PRODUCERS:
            client_id = self.record_client_id or f"connector-producer-{_RECORD_PRODUCERS[role]}{suffix or '-0'}"
            return replace(self.record_producer, client_id=client_id)
        if role is ClientRole.GROUP_MEMBER:
            return self.worker
        return replace(self.worker, client_id=f"{self.group_id}-{self.worker.client_id}-{role}")


_OF_CONNECTORS = {
    ClientRole.REPLICATION_CONSUMER: ("source_consumer", _SOURCE),
    ClientRole.REPLICATION_SOURCE_ADMIN: ("source_admin", _SOURCE),
    ClientRole.REPLICATION_TARGET_ADMIN: ("target_admin", _SOURCE),
    ClientRole.OFFSET_SYNCS_SOURCE_PRODUCER: ("source_producer", _SOURCE),
    ClientRole.OFFSET_SYNCS_TARGET_PRODUCER: ("target_producer", _SOURCE),
    ClientRole.OFFSET_SYNCS_SOURCE_ADMIN: ("source_admin", _SOURCE),
    ClientRole.OFFSET_SYNCS_TARGET_ADMIN: ("target_admin", _SOURCE),
    ClientRole.OFFSET_SYNCS_SOURCE_CONSUMER: ("source_consumer", _CHECKPOINT),
    ClientRole.OFFSET_SYNCS_TARGET_CONSUMER: ("target_consumer", _CHECKPOINT),
    ClientRole.CHECKPOINT_SOURCE_ADMIN: ("source_admin", _CHECKPOINT),
    ClientRole.CHECKPOINT_TARGET_ADMIN: ("target_admin", _CHECKPOINT),
    ClientRole.CHECKPOINTS_TARGET_CONSUMER: ("target_consumer", _CHECKPOINT),
    ClientRole.HEARTBEATS_TARGET_ADMIN: ("target_admin", _HEARTBEAT),
}
_RECORD_PRODUCERS = {
    ClientRole.RECORDS: _SOURCE,
    ClientRole.CHECKPOINTS: _CHECKPOINT,
    ClientRole.HEARTBEATS: _HEARTBEAT,
}

_MODELS: Mapping[str, type[ClientKeys]] = {"consumer": ConsumerKeys, "producer": ProducerKeys, "admin": AdminKeys}


def property_maps(flow: Flow, worker: Properties, connector: Properties) -> dict[str, Properties]:
    """Return Java's property map of every client, by the name of its `FlowClients` field."""
    maps = {
        f"{side}_{word}": java_derivation.connector_client(connector, side, word)
        for side in ("source", "target")
        for word in _MODELS
    }
    return {
        **maps,
        "record_producer": java_derivation.record_producer(worker, connector),
        "worker": java_derivation.worker_client(worker),
    }


def read_clients(maps: dict[str, Properties], flow: Flow, group_id: str, reader: ClientReader) -> FlowClients:
    """Return the settings from ``maps``, the result of `property_maps`."""

    def read(field: str) -> ClientSettings:
        side, _, kind = field.partition("_")
        alias = flow.source if side == "source" else flow.target
        return reader.read(maps[field], _MODELS[kind], alias, str(flow))

    producer, worker = maps["record_producer"], maps["worker"]
    own_id = producer["client.id"].text.strip() if "client.id" in producer else None
    return FlowClients(
        source_consumer=read("source_consumer"),
        source_producer=read("source_producer"),
        source_admin=read("source_admin"),
        target_consumer=read("target_consumer"),
        target_producer=read("target_producer"),
        target_admin=read("target_admin"),
        record_producer=read("record_producer"),
        worker=replace(
            reader.read(worker, WorkerClientKeys, flow.target, ""), client_id=worker["client.id"].text.strip()
        ),
        fetch=reader.fetch(maps["source_consumer"]),
        produce=reader.produce(producer),
        group_id=group_id,
        record_client_id=own_id or None,
    )
