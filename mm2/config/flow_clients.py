"""The clients of one flow, by what each is for, with Java's names for brokers' logs (mm2-compat §1.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from mm2.config import derive
from mm2.config.client_keys import AdminKeys, ClientKeys, ConsumerKeys, ProducerKeys, WorkerClientKeys
from mm2.config.clients import ClientReader
from mm2.config.values import Properties
from mm2.core.client_settings import ClientSettings, FetchSettings, ProduceSettings
from mm2.core.names import Flow

_SOURCE = "MirrorSourceConnector"
_CHECKPOINT = "MirrorCheckpointConnector"
_HEARTBEAT = "MirrorHeartbeatConnector"


class ClientRole(StrEnum):
    """What a client is for; mostly what Java appends to its client.id."""

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
    """Settings by side and kind; `of` picks one for a role and names it. Their own client_id is ``A->B``, with the
    user's client.id in front of it."""

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
        """The settings for ``role``, with the client.id Java gives it; ``task`` where a task of a connector asks."""
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
    """Java's property map of every client of `FlowClients`, by its field name there."""
    maps = {
        f"{side}_{word}": derive.connector_client(connector, side, word)
        for side in ("source", "target")
        for word in _MODELS
    }
    return {
        **maps,
        "record_producer": derive.record_producer(worker, connector),
        "worker": derive.worker_client(worker),
    }


def read_clients(maps: dict[str, Properties], flow: Flow, group_id: str, reader: ClientReader) -> FlowClients:
    """Settings from ``maps``, which `property_maps` made."""

    def read(field: str, word: str) -> ClientSettings:
        alias = flow.source if field.startswith("source") else flow.target
        return reader.read(maps[field], _MODELS[word], alias, str(flow))

    producer, worker = maps["record_producer"], maps["worker"]
    own_id = producer["client.id"].text.strip() if "client.id" in producer else None
    return FlowClients(
        source_consumer=read("source_consumer", "consumer"),
        source_producer=read("source_producer", "producer"),
        source_admin=read("source_admin", "admin"),
        target_consumer=read("target_consumer", "consumer"),
        target_producer=read("target_producer", "producer"),
        target_admin=read("target_admin", "admin"),
        record_producer=read("record_producer", "producer"),
        worker=replace(
            reader.read(worker, WorkerClientKeys, flow.target, ""), client_id=worker["client.id"].text.strip()
        ),
        fetch=reader.fetch(maps["source_consumer"]),
        produce=reader.produce(producer),
        group_id=group_id,
        record_client_id=own_id or None,
    )
