"""Task runners: the interface, and a base class for kinds whose tasks on a node share one asyncio task.

To add a kind of task, write a `TaskRunner` and add a line to `mm2.node.flow.task_runners`.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from mm2.config.settings import FlowSettings
from mm2.core.assignment.tasks import TaskId
from mm2.core.lanes.task_states import TaskState
from mm2.core.plugins import PluginError
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying
from mm2.node.engine.lease_service import LeaseService
from mm2.node.flow.retained_state import RetainedFlowState
from mm2.node.status.partition_ownership import HostedSourceTask
from mm2.node.status.status_model import GroupStatus, TaskStatus
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.loss_store import LossStore
from mm2.node.store.status_store import StatusStore
from mm2.node.store.worker_topics import WorkerTopics

log = logging.getLogger(__name__)

STARTING = "starting"
"""The error of a task that cannot work yet, although nothing is wrong."""

RETRY_FAILED_MS = 5_000
"""Delay before a task that failed as a whole is restarted: an immediate retry rarely succeeds."""


@dataclass(slots=True, kw_only=True)
class TaskContext:
    """The objects that the tasks of a flow share during one session.

    ``settings`` is replaced when the file changes keys that need no restart (`UpdateMode.RUNNING`). ``producer`` writes
    to the status topic on ``target``, which ``statuses`` reads. ``certain_for`` returns for how many seconds this node
    is certainly a member of the flow's group, so that no other node runs its tasks.
    """

    settings: FlowSettings
    node_id: str
    configs: ConfigStore
    target: Cluster
    producer: ControlProducer
    statuses: StatusStore
    losses: LossStore
    topics: WorkerTopics
    lease_service: LeaseService
    retained: RetainedFlowState
    certain_for: Callable[[], float]

    def may_send(self) -> bool:
        """Return whether tasks may send anything to a cluster: no other node runs them."""
        return self.certain_for() > 0


class TaskRunner(ABC):
    """Runs the tasks of one kind that this node is assigned, by their numbers."""

    kind: ClassVar[str]
    """The name of the kind in task IDs."""

    def __init__(self, context: TaskContext, on_ended: Callable[[], None]) -> None:
        """The runner calls ``on_ended`` when a task leaves `running`."""
        self.context = context
        self.on_ended = on_ended

    # -- for the leader

    @classmethod
    @abstractmethod
    def is_enabled(cls, settings: FlowSettings) -> bool:
        """Return whether the flow has tasks of this kind."""

    @classmethod
    @abstractmethod
    def weights(cls, settings: FlowSettings, configs: ConfigStore) -> Mapping[int, int]:
        """Return the tasks of an enabled kind that the flow has now, by number, with their weights (`rebalance`).

        ``configs`` contains the lists that the leader has published.
        """

    # -- tasks of this node

    @abstractmethod
    def assign(self, tasks: Mapping[int, int], member_id: str) -> None:
        """Run these tasks and end all others. ``tasks``: by number, the epoch in which each was assigned."""

    def revoke(self) -> None:
        """End all tasks immediately and store nothing, because other nodes may be running them already."""
        self.assign({}, "")

    @property
    @abstractmethod
    def running(self) -> Collection[int]:
        """The tasks that are possibly running here; any other task can be run by another node."""

    @abstractmethod
    def restart(self, number: int) -> bool:
        """Restart a task from its stored state; return False if it does not run here."""

    async def run(self) -> None:  # noqa: B027 not every kind needs it
        """Run the kind's background work until cancelled.

        Raises ClusterError and PluginError, which end the session.
        """

    async def close(self) -> None:  # noqa: B027 not every kind needs it
        """End all tasks now."""

    def freeze(self) -> None:  # noqa: B027 not every kind needs it
        """Start nothing new, because the node drains."""

    def settings_changed(self) -> None:  # noqa: B027 not every kind needs it
        """React to new `TaskContext.settings`."""

    def configs_changed(self) -> None:  # noqa: B027 not every kind needs it
        """React to changed records of the leader (`TaskContext.configs`)."""

    def refresh(self) -> None:  # noqa: B027 not every kind needs it
        """Refresh topics or groups now instead of at the end of an interval."""

    # -- status

    @abstractmethod
    def status(self) -> list[TaskStatus]:
        """Return the status of each task."""

    def reasons(self) -> list[str]:
        """Return the errors that prevent the tasks from working, and warnings."""
        return []

    def topics_written(self) -> Iterable[tuple[str, int]]:
        """Return the topics on the target that tasks have written to, each with a task's number."""
        return ()

    @property
    def hosted(self) -> tuple[HostedSourceTask, ...]:
        """The source tasks that have started here."""
        return ()

    @property
    def fetch_shares(self) -> int:
        """The bytes per second that the tasks here may fetch, if mm2.max.bytes.per.second limits them."""
        return 0

    @property
    def groups(self) -> Iterable[GroupStatus]:
        """The consumer groups whose offsets tasks on this node translate."""
        return ()

    @property
    def group_reasons(self) -> tuple[str, ...] | None:
        """Why `groups` is incomplete; None if the kind does not translate groups, or does not run here."""
        return None

    def task_status(self, number: int, state: TaskState, error: str | None = None) -> TaskStatus:
        """Return the status of a task of this kind on this node."""
        task = TaskId(self.kind, number)
        return TaskStatus(id=str(task), kind=task.label, node=self.context.node_id, state=state, error=error)


class SharedTaskRunner(TaskRunner):
    """Base of kinds whose tasks on a node share one asyncio task, which runs while the node has any of these tasks.

    If it fails, its tasks are FAILED and it is restarted after `retry_failed_ms`.
    """

    retry_failed_ms: ClassVar[int] = RETRY_FAILED_MS
    """Delay in milliseconds before a task that failed as a whole is restarted."""

    def __init__(self, context: TaskContext, on_ended: Callable[[], None]) -> None:
        super().__init__(context, on_ended)
        self.numbers: frozenset[int] = frozenset()
        self._ending: frozenset[int] = frozenset()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._error = CurrentError(log, context.settings.flow, level=logging.ERROR)

    @abstractmethod
    async def work(self) -> None:
        """Do the work of the tasks `numbers` until cancelled; they can change meanwhile."""

    @property
    def paused(self) -> bool:
        """Whether an operator has paused the tasks."""
        return False

    @property
    def error(self) -> str | None:
        """The error that prevents a running task from working."""
        return None

    def assign(self, tasks: Mapping[int, int], member_id: str) -> None:
        """Run these tasks and end all others."""
        self._ending, self.numbers = self.running, frozenset(tasks)
        self.update()

    def update(self) -> None:
        """Start or end the asyncio task according to the assignment, the settings and pauses."""
        wanted = bool(self.numbers) and not self._closed and not self.paused
        if not (wanted and self.is_enabled(self.context.settings)):
            if self._task is not None:
                self._task.cancel()
        elif self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"{self.context.settings.flow} {self.kind}")
            self._task.add_done_callback(self._done)

    async def _run(self) -> None:
        await keep_trying(
            self._attempt,
            self._error,
            lambda error: f"{self.kind} failed: {error}",
            expected=(ClusterError, PluginError),
            unexpected=f"{self.kind} failed unexpectedly; restarting (see the log)",
            min_ms=self.retry_failed_ms,
            max_ms=self.retry_failed_ms,
        )

    async def _attempt(self) -> None:
        self._error.hide()
        await self.work()

    def _done(self, _: asyncio.Task[None]) -> None:
        self._task = None
        self._error.clear()
        if not self._closed:
            self.update()
            self.on_ended()

    @property
    def running(self) -> frozenset[int]:
        """The tasks that the asyncio task runs, or was running before it was cancelled."""
        return self.numbers or self._ending if self._task is not None else frozenset()

    def restart(self, number: int) -> bool:
        """Restart all tasks of the kind on this node."""
        if self._task is None or number not in self.running:
            return False
        self._task.cancel()  # `_done` restarts it if it is still assigned
        return True

    def settings_changed(self) -> None:
        """Restart with the new settings."""
        if self._task is not None:
            self._task.cancel()
        self.update()

    def configs_changed(self) -> None:
        """Start or end the tasks if a pause has ended or started."""
        self.update()

    async def close(self) -> None:
        """End all tasks now."""
        self._closed = True
        if self._task is not None:
            await cancel_and_wait([self._task])

    def status(self) -> list[TaskStatus]:
        """Return the status of each task."""
        if self._task is None:
            return [self.task_status(number, TaskState.PAUSED) for number in sorted(self.numbers) if self.paused]
        if self._error.text is not None:
            return [self.task_status(number, TaskState.FAILED, self._error.text) for number in sorted(self.running)]
        state = TaskState.RUNNING if self.error is None else TaskState.WAITING
        return [self.task_status(number, state, self.error) for number in sorted(self.running)]

    def reasons(self) -> list[str]:
        """Return the error that prevents the tasks from working, if any."""
        return [self.error] if self._task is not None and self.error is not None else []
