"""The source tasks of one flow on this node: their assignment, their status, and the reports of their lanes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.assignment.partition_assignment import WEIGHT
from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.assignment.tasks import TaskKind
from mm2.core.lanes.fetch_shares import share_of
from mm2.core.lanes.lease import SourceTaskLease
from mm2.core.lanes.losses import loss_warning, stop_message
from mm2.core.lanes.source_task_steps import SourceTaskState, Step, StepKind
from mm2.core.lanes.task_states import TaskState
from mm2.core.log_records import about
from mm2.core.naming.names import TopicPartition
from mm2.core.plugins import PluginError
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.node.common.current_error import CurrentError
from mm2.node.common.fencing_errors import FencingFailedError
from mm2.node.engine.lease_service import ANY, Wake
from mm2.node.flow.task_runner import TaskContext, TaskRunner
from mm2.node.source.assigned_source_task import AssignedSourceTask, loop_time
from mm2.node.source.source_task_leases import SourceTaskLeases
from mm2.node.source.source_task_reporter import SourceTaskReporter
from mm2.node.status.partition_ownership import HostedSourceTask
from mm2.node.status.status_model import TaskStatus
from mm2.node.store.config_store import ConfigStore

log = logging.getLogger(__name__)

PROGRESS_EVERY_S = 10.0
"""How often the progress of a source task is processed although it has not changed, so that the measured load of its
partitions (`partition_load`) decreases."""

CATCH_UP_MS = 5_000
"""How long new source tasks wait for the newest lists before other tasks are processed; the wait is then retried."""

SETTLE_EVERY_S = 1.0
"""Lanes report once a second; their reports also wake this task immediately."""

STORE_RELEASES_S = 2.0
"""How long a node that ends waits until releases are stored; otherwise the next owners fence this node's producers."""

_WOKEN_BY = ANY - {Wake.ORDERS, Wake.TURN}  # the orders of source tasks are its own work

_NOT_RECORDED = (
    "waiting for the leader to fence earlier source tasks; if this lasts, the leader reports why it cannot lead, or its"
    " file lacks {}.exactly.once.source.support = preparing or enabled"
)
_NOT_ENABLED = "the leader assigned this source task to this node, but the flow is not enabled in this node's file"


class SourceTaskRunner(TaskRunner):
    """Runs the source tasks of this node in lanes.

    `mm2.core.lanes.source_task_steps.next_step` decides; this class executes the steps, with `SourceTaskLeases` for
    what leases need. A list is reported to the leader as running only after every partition that is not in it has
    stopped.
    """

    kind = TaskKind.SOURCE

    def __init__(self, context: TaskContext, on_ended: Callable[[], None]) -> None:
        super().__init__(context, on_ended)
        settings = context.settings
        self._flow = settings.flow
        self._enabled = settings.enabled
        self._lease_service = context.lease_service
        self._board = context.lease_service.board
        self._records = Cluster(settings.clients.of(ClientRole.RECORDS))
        self._leases = SourceTaskLeases(context, self._records)
        self._reporter = SourceTaskReporter(
            settings, context.producer, context.topics.status_partitions, context.node_id
        )
        self._member_id = ""
        self._assigned: Collection[int] = ()
        self._tasks: dict[int, AssignedSourceTask] = {}
        self._lane_warnings: list[str] = []
        self._refused: list[str] = []
        self._leasing = CurrentError(log, settings.flow)

    @classmethod
    def is_enabled(cls, settings: FlowSettings) -> bool:
        """Return whether the flow is enabled."""
        return settings.enabled

    @classmethod
    def weights(cls, settings: FlowSettings, configs: ConfigStore) -> Mapping[int, int]:
        """Return the source tasks that have partitions; the leader has more precise weights (`LeaderTerm`)."""
        lists = configs.source_tasks.records
        return {number: WEIGHT * len(record.partitions) for number, record in lists.items() if record.partitions}

    # -- assignment

    def assign(self, tasks: Mapping[int, int], member_id: str) -> None:
        """Run these tasks as member ``member_id``; drain all others."""
        self._member_id = member_id
        self._assigned = tasks.keys()
        if not self._enabled:
            return
        for source_task, epoch in tasks.items():
            task = self._tasks.get(source_task)
            if task is None:
                self._tasks[source_task] = AssignedSourceTask(source_task=source_task, epoch=epoch, since=loop_time())
            elif task.is_ending:
                task.reassigned, task.epoch = True, epoch
        for source_task in self._tasks.keys() - tasks.keys():
            self._drain(self._tasks[source_task])
        self._lease_service.wake(Wake.ASSIGNMENT)

    def _drain(self, task: AssignedSourceTask) -> None:
        """Have its lane drain a source task, which is revoked."""
        task.reassigned = False
        if not task.is_ending:
            task.enter(SourceTaskState.DRAINING, loop_time(), "revoked")
            if task.assigned is not None:
                self._leases.renew(task)

    def revoke(self) -> None:
        """End all source tasks immediately: lanes close them without storing offsets."""
        self._assigned = ()
        for task in self._tasks.values():
            task.reassigned = False
            task.enter(SourceTaskState.ABANDONED, loop_time(), "the node has lost its membership")
            self._lease_service.remove((self._flow, task.source_task))

    @property
    def running(self) -> Collection[int]:
        """The source tasks that a lane is possibly running."""
        return self._tasks.keys()

    def restart(self, number: int) -> bool:
        """Restart the source task from its stored offsets; return False if it does not run here."""
        task = self._tasks.get(number)
        if task is None:
            return False
        task.restarts.request("requested through REST")
        self._lease_service.retry_records((self._flow, number))
        self._lease_service.wake(Wake.REQUEST)
        return True

    def settings_changed(self) -> None:
        """Use new settings; lanes are not affected."""
        self._leases.settings_changed()

    def freeze(self) -> None:
        """Grant no more leases; lanes drain their source tasks."""
        self._leases.frozen = True

    async def close(self) -> None:
        """Remove all source tasks from the lanes, unless the lanes are draining them."""
        releases = [task.release for task in self._tasks.values() if task.release is not None]
        if releases:
            await asyncio.wait(releases, timeout=STORE_RELEASES_S)
        if not self._leases.frozen:
            for source_task in self._tasks:
                self._lease_service.remove((self._flow, source_task))
            self._tasks.clear()

    # -- status

    def reasons(self) -> list[str]:
        """Return the error that prevents leases from being granted, and warnings."""
        error = [] if self._leasing.text is None else [self._leasing.text]
        return [
            *error,
            *self._refused,
            *self._leases.errors,
            *self._lane_failures(),
            *self._trials(),
            *dict.fromkeys(self._lane_warnings + self._leases.warnings),
        ]

    def _lane_failures(self) -> Iterable[str]:
        """Return the errors that ended lanes lately, each once."""
        found = (self._board.ended_by((self._flow, source_task)) for source_task in self._tasks)
        return dict.fromkeys(one for one in found if one is not None)

    def _trials(self) -> Iterable[str]:
        """Return why records pass through queries in small parts, each reason once."""
        found = (self._board.trial_reason((self._flow, source_task)) for source_task in self._tasks)
        return dict.fromkeys(one for one in found if one is not None)

    @property
    def hosted(self) -> tuple[HostedSourceTask, ...]:
        """The started source tasks with the states reported by their lanes; the same objects while nothing changes."""
        found = []
        for source_task, task in self._tasks.items():
            if task.assigned is not None:
                lane = self._leases.lane_state(source_task)
                states = lane.states if lane is not None else {}
                found.append(
                    HostedSourceTask(
                        source_task=source_task,
                        partitions=task.assigned.partitions,
                        states=states,
                        held_back=self._leases.held_back(task),
                    )
                )
        return tuple(found)

    @property
    def fetch_shares(self) -> int:
        """The sum of the shares of mm2.max.bytes.per.second that source tasks of this node have; 0 without a limit."""
        return sum(self.fetch_share(source_task) or 0 for source_task in self._tasks)

    def topics_written(self) -> Iterable[tuple[str, int]]:
        """Return the remote topics to which tasks of this node have copied records."""
        for source_task in self._tasks:
            lane = self._leases.lane_state(source_task)
            partitions = lane.source_task.partitions if lane is not None else ()
            yield from sorted({(p.remote_topic, source_task) for p in partitions if p.counters.records})

    def status(self) -> list[TaskStatus]:
        """Return the status of each source task."""
        if not self._enabled:
            return [self.task_status(number, TaskState.FAILED, _NOT_ENABLED) for number in sorted(self._assigned)]
        return [self._status(self._tasks[source_task]) for source_task in sorted(self._tasks)]

    def _status(self, task: AssignedSourceTask) -> TaskStatus:
        lane = self._leases.lane_state(task.source_task)
        if lane is not None:
            state, error = lane.source_task.state, lane.source_task.error
        else:
            state, error = TaskState.WAITING, self._board.last_error((self._flow, task.source_task))
            if task.assigned is None and self._leases.waits_for_leader(task.source_task):
                error = _NOT_RECORDED.format(self._flow.target)
            elif (failure := self._leases.not_fenced(task.source_task)) is not None:
                state = TaskState.FAILED if isinstance(failure.cause, FencingFailedError) else state
                error = failure.text
            elif (refused := self._board.refused((self._flow, task.source_task))) is not None:
                state, error = TaskState.FAILED, refused
        stopped_by = self.context.losses.flow_stopped_by
        if stopped_by is not None:
            state, error = TaskState.FAILED, stop_message(stopped_by, self._flow)
        elif task.assigned is not None and task.assigned.partitions and not task.leased and not task.is_ending:
            pauses = self.context.configs.pauses
            if all(pauses.covers(partition.topic) for partition in task.assigned.partitions):
                state = TaskState.PAUSED
        if lane is None and state is TaskState.WAITING:
            error = error or task.why()
        return self.task_status(task.source_task, state, error)

    # -- work

    async def run(self) -> None:
        """Keep the leases up to date until cancelled."""
        if not self._enabled:
            return
        async with self._records:
            try:
                await self._follow()
            finally:
                await self._leases.close()

    async def _follow(self) -> None:
        transactions = self.context.settings.transactions
        if transactions is not None:
            log.info(
                "%s: exactly-once: records and source offsets are committed together every %d ms",
                self._flow,
                transactions.interval_ms,
            )
        self._lease_service.register(self._flow, self)
        await self._try(self._leases.refresh)  # can take long, so read before a lane requests its first lease
        while True:
            changed = self._lease_service.change_event(_WOKEN_BY)
            self._take_progress()
            if self._leases.frozen:
                self._store_releases()
            elif not await self._try(self._settle):
                await asyncio.sleep(SETTLE_EVERY_S)
            if reasons := await changed.wait(SETTLE_EVERY_S):
                log.debug("%s: woken: %s", self._flow, "; ".join(sorted(reason.value for reason in reasons)))

    async def _try(self, step: Callable[[], Awaitable[None]]) -> bool:
        """Run a step that reads source offsets; return False if they could not be read, or a user's class failed."""
        try:
            await step()
        except ClusterError as error:
            self._leasing.report(f"cannot read source offsets: {error}", error)
            return False
        except PluginError as error:
            self._leasing.report(str(error), error)
            return False
        self._leasing.clear()
        return True

    def _take_progress(self) -> None:
        """Process the newest reports of the lanes. A warning ends when no lane repeats it."""
        now = loop_time()
        warnings: dict[str, None] = {}
        for task in self._tasks.values():
            lane = self._leases.lane_state(task.source_task)
            if lane is None:
                continue
            warnings |= dict.fromkeys(lane.source_task.warnings)
            if lane.source_task is task.progress and now - task.progress_at < PROGRESS_EVERY_S:
                continue
            task.progress, task.progress_at = lane.source_task, now
            for loss in self.context.retained.progress.take(lane.session, lane.source_task):
                lost = about(partition=TopicPartition(loss.topic, loss.partition))
                log.warning("%s: %s", self._flow, loss_warning(loss, self._flow), extra=lost)
            self._reporter.measure(lane.session, lane.source_task, now, self.fetch_share(task.source_task))
        for warning in warnings:
            if warning not in self._lane_warnings:
                log.warning("%s: %s", self._flow, warning)
        self._lane_warnings = list(warnings)
        self._take_refusals()

    def _take_refusals(self) -> None:
        """Log each query that cannot run, once while it cannot."""
        found = [self._board.refused((self._flow, source_task)) for source_task in self._tasks]
        refused = list(dict.fromkeys(one for one in found if one is not None))
        for one in refused:
            if one not in self._refused:
                log.error("%s: %s; topics with this query are not copied", self._flow, one)
        self._refused = refused

    async def _settle(self) -> None:
        """Execute the next step of every source task, and report their lists."""
        now = loop_time()
        for task in list(self._tasks.values()):
            if task.is_ending:
                self._execute(task, self._leases.next_step(task, now), now)
        assigned = [task for task in self._tasks.values() if not task.is_ending]
        if any(task.assigned is None for task in assigned):  # a new source task must not start with an outdated list
            await self.context.configs.catch_up(timeout_ms=CATCH_UP_MS)
        self._leases.complete(self._tasks.values(), now)
        if self._leases.must_look(now):
            await self._leases.refresh(self._tasks.values())
        due, failed = self._due(now)
        if due:
            await self._leases.refresh(
                self._tasks.values()
            )  # after earlier owners were fenced: what they stored last counts
        self._leases.grant([task for task in due if self._is_assigned(task)], now)
        self._leases.report_queries(now)
        for task in self._tasks.values():
            if task.assigned is not None and self._member_id and self._is_settled(task, task.assigned):
                self._reporter.report(task.assigned, self._member_id, now)
        if due:
            self._reporter.keep([partition for one in self.hosted for partition in one.partitions])
        if failed is not None:
            raise failed

    def _due(self, now: float) -> tuple[list[AssignedSourceTask], PluginError | None]:
        """Execute the next step of each source task that is assigned, except leases.

        Return the source tasks to grant a lease, and an error of the others.
        """
        due: list[AssignedSourceTask] = []
        failed: PluginError | None = None
        for task in list(self._tasks.values()):
            if not self._is_assigned(task):
                continue
            try:
                step = self._leases.next_step(task, now)
                if step.kind is StepKind.GRANT:
                    self._leases.note_due(task)
                    due.append(task)
                else:
                    self._execute(task, step, now)
            except PluginError as error:  # the replication policy cannot name a remote topic; others continue
                failed = error
        return due, failed

    def _is_assigned(self, task: AssignedSourceTask) -> bool:
        return self._tasks.get(task.source_task) is task and not task.is_ending

    def _execute(self, task: AssignedSourceTask, step: Step, now: float) -> None:
        """Execute a step, other than GRANT: `SourceTaskLeases.grant`. Raises PluginError."""
        task.take(step, now)
        match step.kind:
            case StepKind.FENCE:
                self._leases.fence(task)
            case StepKind.STORE_RELEASE:
                if not self._store_release(task):
                    task.enter(SourceTaskState.RELEASED, now)
                    self._released(task)
            case StepKind.ABANDON:
                log.warning(
                    "%s: source task %d did not drain within %.0f s; stopping it, so some of its records will be copied"
                    " again",
                    self._flow,
                    task.source_task,
                    self.context.settings.worker.task_shutdown_graceful_timeout_ms / 1000,
                )
                self._lease_service.remove((self._flow, task.source_task))
            case StepKind.RELEASE:
                self._released(task)

    # -- releases

    def _store_release(self, task: AssignedSourceTask) -> bool:
        """Store that the source task is released in order, so that the next owner need not fence this one.

        Return False if that cannot be written.
        """
        producer = self._leases.producer(task.source_task)
        if producer is not None:
            task.release = self._reporter.release(task.source_task, producer)
        if task.release is None:
            return False
        task.release.add_done_callback(lambda _: self._lease_service.wake(Wake.RELEASED))
        return True

    def _store_releases(self) -> None:
        """Store the release of each source task that has drained, or was not started, because the node drains."""
        for task in self._tasks.values():
            in_order = self._leases.lane_view(task).has_drained or not task.used
            if task.release is None and in_order and task.state is not SourceTaskState.ABANDONED:
                self._store_release(task)

    def _released(self, task: AssignedSourceTask) -> None:
        self._leases.forget(task.source_task)
        self._reporter.forget(task.source_task)
        del self._tasks[task.source_task]
        if task.reassigned:
            again = AssignedSourceTask(source_task=task.source_task, epoch=task.epoch, since=loop_time())
            again.restarts.count = task.restarts.count + 1
            self._tasks[task.source_task] = again
            self._lease_service.wake(Wake.RELEASED)
        else:
            log.info("%s: source task %d released", self._flow, task.source_task)
            self.on_ended()

    def _is_settled(self, task: AssignedSourceTask, record: SourceTaskRecord) -> bool:
        """Return whether every partition that runs here is in the source task's list."""
        lane = self._leases.lane_state(task.source_task)
        if lane is None:  # a lane that was lost may write until the next one has fenced it
            return task.unfenced_partitions <= record.partitions and not self._board.runs(
                (self._flow, task.source_task)
            )
        return lane.current and lane.running <= record.partitions

    # -- requests of lanes

    async def prepare_lease(self, source_task: int) -> None:
        """Fence the run of a lane that another one replaces, and read the current stored offsets."""
        task = self._tasks.get(source_task)
        if task is not None and task.assigned is not None:
            await self._leases.prepare(task)

    def hand_out_lease(self, source_task: int) -> SourceTaskLease | None:
        """Return the lease of a source task whose lane (re)starts; None if it ended."""
        task = self._tasks.get(source_task)
        if task is None or task.assigned is None or task.state is SourceTaskState.ABANDONED:
            return None
        return self._leases.hand_out(task)

    def certain_for(self) -> float:
        """Return for how many seconds this node is certainly a member of the flow's group."""
        return self.context.certain_for()

    def fetch_share(self, source_task: int) -> int | None:
        """Return how many bytes per second a source task may fetch by mm2.max.bytes.per.second; None: any number."""
        limit, configs = self.context.settings.own.max_bytes_per_second, self.context.configs
        if limit is None:
            return None
        return share_of(limit, source_task, configs.partition_counts, configs.fetch_shares)
