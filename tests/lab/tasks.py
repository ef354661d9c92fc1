"""Context of a flow's tasks without a node."""

from __future__ import annotations

from mm2.config.settings import FlowSettings
from mm2.core.settings.client import ClientSettings
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.engine.lane_board import LaneBoard
from mm2.node.engine.lease_service import LeaseService
from mm2.node.flow.retained_state import RetainedFlowState
from mm2.node.flow.task_runner import TaskContext
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.loss_store import LossStore
from mm2.node.store.status_store import StatusStore
from mm2.node.store.worker_topics import WorkerTopics


def unconnected_cluster() -> Cluster:
    """A client of a cluster that is never contacted."""
    return Cluster(ClientSettings(bootstrap_servers=("localhost:1",)))


def task_context(
    settings: FlowSettings, configs: ConfigStore, target: Cluster, *, node_id: str, offsets_partitions: int = 25
) -> TaskContext:
    """The context of a session that has one lane."""
    offsets = StoredSourceOffsets(
        target,
        settings.storage.offsets.name,
        settings.flow,
        source_alias=settings.aliases.source,
        partitions=offsets_partitions,
    )
    board = LaneBoard(lanes=1, buffer_bytes=1_000_000, new_secret=lambda: "secret", cluster=None)
    producer = ControlProducer(target)
    return TaskContext(
        settings=settings,
        node_id=node_id,
        configs=configs,
        target=target,
        producer=producer,
        losses=LossStore(settings, target, producer, lambda: None),
        statuses=StatusStore(settings.flow, settings.storage.statuses.name),
        topics=WorkerTopics(source_offsets=offsets, status_partitions=1),
        lease_service=LeaseService(board, capacity=1),
        retained=RetainedFlowState(),
        certain_for=lambda: float("inf"),
    )
