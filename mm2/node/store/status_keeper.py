"""Keeps the statuses of a flow's tasks and connectors in the status topic up to date."""

from __future__ import annotations

import socket
import time

from mm2.config.settings import FlowSettings
from mm2.core.assignment.task_placement import TaskAssignments
from mm2.core.assignment.tasks import TaskKind
from mm2.core.coordination.pauses import Pauses
from mm2.core.lanes.task_states import TaskState
from mm2.core.wire.status_records import worker_id
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.flow.task_host import TaskHost
from mm2.node.flow.task_runners import enabled_kinds
from mm2.node.identity import NodeIdentity
from mm2.node.store.status_store import StatusStore
from mm2.node.store.status_writer import StatusWriter

TOPICS_EVERY_S = 10.0
"""How often newly used topics are recorded; they are for information only."""


class StatusKeeper:
    """Writes changed statuses; call it about once a second."""

    def __init__(
        self,
        settings: FlowSettings,
        identity: NodeIdentity,
        producer: ControlProducer,
        store: StatusStore,
        partitions: int,
    ) -> None:
        """``partitions`` is the partition count of the status topic."""
        self._settings = settings
        self._store = store
        self._topics_written_at = float("-inf")
        self._writer = StatusWriter(
            settings.flow,
            producer,
            store,
            partitions=partitions,
            worker_id=worker_id(socket.gethostname(), settings.flow, identity.node_id),
            version=identity.version,
        )

    def take_over(self, settings: FlowSettings) -> None:
        """Use new settings."""
        self._settings = settings

    def write_tasks(self, host: TaskHost, generation: int) -> None:
        """Write the statuses of this node's tasks, and the topics that they write to."""
        self._writer.tasks({task.id: (task.state, task.error) for task in host.tasks()}, generation)
        now = time.monotonic()
        if self._settings.worker.topic_tracking_enable and now - self._topics_written_at >= TOPICS_EVERY_S:
            self._topics_written_at = now
            self._writer.topics(host.topic_uses())

    def write_connectors(self, placement: TaskAssignments, pauses: Pauses, generation: int) -> None:
        """Write the statuses of the connectors and remove those of deleted tasks; for the leader only."""
        state = TaskState.PAUSED if pauses.flow else TaskState.RUNNING
        states = {
            kind: TaskState.RUNNING if kind == TaskKind.HEARTBEAT else state for kind in enabled_kinds(self._settings)
        }
        self._writer.connectors(states, generation)
        known = {str(task) for task in placement.places}
        self._writer.remove(task for task in self._store.tasks() if task not in known)

    def step_down(self, generation: int) -> None:
        """Stop writing connector statuses, because this node is not the leader."""
        self._writer.connectors({}, generation)
