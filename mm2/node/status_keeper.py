"""Keeps what ``mm2-status.<source>.internal`` says of a flow's tasks true, for Java's tools and other nodes."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable

from mm2.config.settings import FlowSettings
from mm2.core.lease import TaskState
from mm2.core.pauses import Pauses
from mm2.core.placement import Placement
from mm2.core.status_records import worker_id
from mm2.core.tasks import TaskKind
from mm2.kafka.control_producer import ControlProducer
from mm2.node.node_identity import NodeIdentity
from mm2.node.status_book import StatusBook
from mm2.node.status_topic import StatusWriter
from mm2.node.task_host import TaskHost, lasting_tasks

TOPICS_EVERY_S = 10.0
"""How often topics that were written to for the first time are looked for: nobody waits for it."""


class StatusKeeper:
    """Writes what changed; to be called about once a second."""

    def __init__(
        self,
        settings: FlowSettings,
        identity: NodeIdentity,
        producer: ControlProducer,
        book: StatusBook,
        partitions: int,
    ) -> None:
        """``partitions``: how many the status topic has."""
        self._settings = settings
        self._book = book
        self._looked_at = float("-inf")
        self._writer = StatusWriter(
            settings.flow,
            producer,
            book,
            topic=settings.storage.statuses.name,
            partitions=partitions,
            worker_id=worker_id(socket.gethostname(), settings.flow, identity.node_id),
            version=identity.version,
        )

    def take_over(self, settings: FlowSettings) -> None:
        """Go on with other settings."""
        self._settings = settings

    def tell(self, host: TaskHost, generation: int) -> None:
        """The tasks of this node, and the topics they wrote to."""
        self._writer.tasks({task.id: (task.state, task.error) for task in host.tasks()}, generation)
        now = time.monotonic()
        if self._settings.worker.topic_tracking_enable and now - self._looked_at >= TOPICS_EVERY_S:
            self._looked_at = now
            self._writer.topics(host.topic_uses())

    def lead(self, placement: Placement, pauses: Pauses, generation: int) -> None:
        """What only the leader tells: connectors, and which tasks there are no longer."""
        kinds = {TaskKind.SOURCE} if self._settings.enabled else set()
        kinds |= {task.kind for task in lasting_tasks(self._settings, {})}
        state = TaskState.PAUSED if pauses.flow else TaskState.RUNNING
        states = {str(kind): TaskState.RUNNING if kind is TaskKind.HEARTBEAT else state for kind in kinds}
        self._writer.connectors(states, generation)
        self._writer.gone(self._unknown(placement))

    def step_down(self, generation: int) -> None:
        """Another node leads, or none."""
        self._writer.connectors({}, generation)

    def _unknown(self, placement: Placement) -> Iterable[str]:
        known = {str(task) for task in placement.places}
        return [task for task in self._book.tasks() if task not in known]
