"""The source tasks of one flow on this node: their leases, the reports of their lanes, and their release."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.assignment.partition_assignment import WEIGHT
from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.assignment.tasks import TaskKind
from mm2.core.coordination.pauses import NO_PAUSES
from mm2.core.lanes.lease import SourceTaskLease
from mm2.core.lanes.losses import loss_warning, stop_message
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.plugins import PluginError
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.node.common.current_error import CurrentError
from mm2.node.engine.managed_lane import LaneState
from mm2.node.flow.task_runner import TaskContext, TaskRunner
from mm2.node.source.copied_tails import CopiedTails
from mm2.node.source.lease_builder import LeaseBuilder
from mm2.node.source.source_task_fence import SourceTaskFence
from mm2.node.source.source_task_reporter import SourceTaskReporter
from mm2.node.source.source_task_run import RESTART_NOW, SourceTaskRun
from mm2.node.source.task_producers import TaskProducers
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

_LONG_AGO = float("-inf")
_NOT_ENABLED = "the leader assigned this source task to this node, but the flow is not enabled in this node's file"


class SourceTaskRunner(TaskRunner):
    """Runs the source tasks of this node in lanes.

    Invariants: (A) a source task copies the partitions of its newest list that are not paused. (B) A list is reported
    to the leader as running only after every partition that is not in it has stopped. (C) A source task is released
    when the offsets of all acknowledged records are stored; after task.shutdown.graceful.timeout.ms, when its lane has
    stopped it.
    """

    kind = TaskKind.SOURCE

    def __init__(self, context: TaskContext, on_ended: Callable[[], None]) -> None:
        super().__init__(context, on_ended)
        settings = context.settings
        self._flow = settings.flow
        self._enabled = settings.enabled
        self._lease_service = context.lease_service
        self._leases = LeaseBuilder(
            settings, settings.admin_class(context.target), context.topics.source_offsets, context.losses
        )
        self._reporter = SourceTaskReporter(
            settings, context.producer, context.topics.status_partitions, context.node_id
        )
        self._member_id = ""
        self._assigned: Collection[int] = ()
        self._runs: dict[int, SourceTaskRun] = {}
        self._recreated: set[str] = set()
        self._lane_warnings: list[str] = []
        self._leasing = CurrentError(log, settings.flow)
        records = Cluster(settings.clients.of(ClientRole.RECORDS))
        fence = SourceTaskFence(settings, records, context.statuses.release)
        self._records = records
        self._producers = TaskProducers(
            settings.flow, fence, after_loss=self._store_copied_tails, changed=self._lease_service.wake
        )
        self._tails = CopiedTails(settings, records)
        self._frozen = False

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
            run = self._runs.get(source_task)
            if run is None:
                self._runs[source_task] = SourceTaskRun(source_task=source_task, epoch=epoch)
            elif run.draining:
                run.reassigned, run.epoch = True, epoch
        for source_task in self._runs.keys() - tasks.keys():
            self._drain(self._runs[source_task])
        self._lease_service.wake()

    def revoke(self) -> None:
        """End all source tasks immediately: lanes close them without storing offsets."""
        self._assigned = ()
        for run in self._runs.values():
            run.reassigned, run.draining_since, run.abandoned = False, _LONG_AGO, True
            self._lease_service.remove((self._flow, run.source_task))

    @property
    def running(self) -> Collection[int]:
        """The source tasks that a lane is possibly running."""
        return self._runs.keys()

    def restart(self, number: int) -> bool:
        """Restart the source task from its stored offsets; return False if it does not run here."""
        run = self._runs.get(number)
        if run is None:
            return False
        run.failed_at = RESTART_NOW
        self._lease_service.wake()
        return True

    def settings_changed(self) -> None:
        """Use new settings; lanes are not affected."""
        self._leases.settings_changed(self.context.settings)

    def freeze(self) -> None:
        """Grant no more leases; lanes drain their source tasks."""
        self._frozen = True

    async def close(self) -> None:
        """Remove all source tasks from the lanes, unless the lanes are draining them."""
        releases = [run.release for run in self._runs.values() if run.release is not None]
        if releases:
            await asyncio.wait(releases, timeout=STORE_RELEASES_S)
        if not self._frozen:
            for source_task in self._runs:
                self._lease_service.remove((self._flow, source_task))
            self._runs.clear()

    # -- status

    def reasons(self) -> list[str]:
        """Return the error that prevents leases from being granted, and warnings."""
        error = [] if self._leasing.text is None else [self._leasing.text]
        return [*error, *self._producers.errors, *dict.fromkeys(self._lane_warnings + self._leases.warnings)]

    @property
    def hosted(self) -> tuple[HostedSourceTask, ...]:
        """The started source tasks with the states reported by their lanes; the same objects while nothing changes."""
        found = []
        for source_task, run in self._runs.items():
            if run.record is not None:
                lane = self._lane_state(source_task)
                states = lane.states if lane is not None else {}
                found.append(HostedSourceTask(source_task=source_task, partitions=run.record.partitions, states=states))
        return tuple(found)

    def topics_written(self) -> Iterable[tuple[str, int]]:
        """Return the remote topics to which tasks of this node have copied records."""
        for source_task in self._runs:
            lane = self._lane_state(source_task)
            partitions = lane.source_task.partitions if lane is not None else ()
            yield from sorted({(p.remote_topic, source_task) for p in partitions if p.records_total})

    def status(self) -> list[TaskStatus]:
        """Return the status of each source task."""
        if not self._enabled:
            return [self.task_status(number, TaskState.FAILED, _NOT_ENABLED) for number in sorted(self._assigned)]
        return [self._status(self._runs[source_task]) for source_task in sorted(self._runs)]

    def _status(self, run: SourceTaskRun) -> TaskStatus:
        lane = self._lane_state(run.source_task)
        if lane is not None:
            state, error = lane.source_task.state, lane.source_task.error
        else:
            state, error = TaskState.WAITING, self._lease_service.board.trouble((self._flow, run.source_task))
        stopped_by = self.context.losses.flow_stopped_by
        if stopped_by is not None:
            state, error = TaskState.FAILED, stop_message(stopped_by, self._flow)
        elif run.record is not None and run.record.partitions and not run.granted and not run.draining:
            pauses = self.context.configs.pauses
            if all(pauses.covers(partition.topic) for partition in run.record.partitions):
                state = TaskState.PAUSED
        return self.task_status(run.source_task, state, error)

    # -- work

    async def run(self) -> None:
        """Keep the leases up to date until cancelled."""
        if not self._enabled:
            return
        async with self._records:
            try:
                await self._follow()
            finally:
                await self._producers.close()

    async def _follow(self) -> None:
        self._lease_service.register(self._flow, self._prepare_lease, self._hand_out, self.context.certain_for)
        await self._try(self._leases.refresh)  # can take long, so read before a lane requests its first lease
        while True:
            news = self._lease_service.news
            self._take_progress()
            if self._frozen:
                self._store_releases()
            elif not await self._try(self._settle):
                await asyncio.sleep(SETTLE_EVERY_S)
            await self._lease_service.changed(SETTLE_EVERY_S, news)

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
        now = asyncio.get_running_loop().time()
        warnings: dict[str, None] = {}
        for run in self._runs.values():
            lane = self._lane_state(run.source_task)
            if lane is None:
                continue
            warnings |= dict.fromkeys(lane.source_task.warnings)
            if lane.source_task is run.progress and now - run.progress_at < PROGRESS_EVERY_S:
                continue
            run.progress, run.progress_at = lane.source_task, now
            for loss in self.context.retained.progress.take(lane.session, lane.source_task):
                log.warning("%s: %s", self._flow, loss_warning(loss, self._flow))
            self._reporter.measure(lane.session, lane.source_task, now)
        for warning in warnings:
            if warning not in self._lane_warnings:
                log.warning("%s: %s", self._flow, warning)
        self._lane_warnings = list(warnings)

    async def _settle(self) -> None:
        """Advance every source task by one step: release it, grant it a lease, or report its list."""
        now = asyncio.get_running_loop().time()
        for run in list(self._runs.values()):
            self._end_if_drained(run, now)
        assigned = [run for run in self._runs.values() if not run.draining]
        if any(run.record is None for run in assigned):  # a new source task must not start with an outdated list
            await self.context.configs.catch_up(timeout_ms=CATCH_UP_MS)
        due, failed = self._due(now)
        if due:
            await self._leases.refresh()  # after earlier owners were fenced: what they stored last counts
        for run in due:
            if self._runs.get(run.source_task) is run and not run.draining and self._has_producer(run, now):
                self._grant(run, now)
        self._recreated.clear()
        for run in self._runs.values():
            if run.record is not None and self._member_id and self._is_settled(run, run.record):
                self._reporter.report(run.record, self._member_id, now)
        if due:
            self._reporter.keep([partition for one in self.hosted for partition in one.partitions])
        if failed is not None:
            raise failed

    def _due(self, now: float) -> tuple[list[SourceTaskRun], PluginError | None]:
        """Return the source tasks to grant a lease now, and an error of the others."""
        due: list[SourceTaskRun] = []
        failed: PluginError | None = None
        for run in self._runs.values():
            try:
                if not run.draining and self._is_lease_due(run, now) and self._has_producer(run, now):
                    due.append(run)
            except PluginError as error:  # the replication policy cannot name a remote topic; others continue
                failed = error
        return due, failed

    def _is_lease_due(self, run: SourceTaskRun, now: float) -> bool:
        """Return whether the source task needs a new lease."""
        record = self.context.configs.source_tasks.records.get(run.source_task)
        if record is None or (run.record is None and self._lease_service.board.runs((self._flow, run.source_task))):
            return False  # not published yet, or a lane has not yet stopped it after an earlier assignment
        if record != run.record:
            self._recreated |= self._leases.take_topic_ids(record)
        if run.record is None or self._unpaused(record) != run.granted:
            return True
        run.record = record
        if run.acceptances != self.context.losses.acceptances:
            return True  # a partition that was stopped by a loss can continue
        if self.context.configs.skips.of(run.granted) != run.skips:
            return True
        if any(partition.topic in self._recreated for partition in run.granted):
            return True  # the lane receives the new topic IDs and decides how to continue
        return self._restart_is_due(run, now)

    def _has_producer(self, run: SourceTaskRun, now: float) -> bool:
        """Return whether earlier owners are fenced, and earlier runs if the source task is to be restarted."""
        if run.record is not None and not self._restarts(run, now):
            return True  # only its partitions change
        return self._producers.is_ready(run.source_task, lambda: self._remote(run))

    def _remote(self, run: SourceTaskRun) -> frozenset[TopicPartition]:
        """Return all remote partitions that earlier owners and runs may be writing. Raises PluginError."""
        record = self.context.configs.source_tasks.records.get(run.source_task)
        listed = record.partitions if record is not None else frozenset[TopicPartition]()
        return self._leases.remote(listed | run.granted | run.exposed)

    async def _store_copied_tails(self, source_task: int) -> None:
        """Store the offsets of records that the lost owner copied and did not store, so that they are not repeated."""
        record = self.context.configs.source_tasks.records.get(source_task)
        if record is None:
            return
        try:
            await self._leases.refresh()
            found = await self._tails.find(self._leases.stored_ends(record.partitions))
            await self._reporter.store_positions(found, self.context.topics.source_offsets.partitions)
        except ClusterError as error:  # records are copied again instead
            log.info("%s: cannot look for what source task %d has copied: %s", self._flow, source_task, error)

    def _restarts(self, run: SourceTaskRun, now: float) -> bool:
        """Return whether the next lease is to restart the source task."""
        return run.failed_at is not None and run.record is not None and self._restart_is_due(run, now)

    def _restart_is_due(self, run: SourceTaskRun, now: float) -> bool:
        return run.restart_is_due(self._lane_state(run.source_task), now)

    def _unpaused(self, record: SourceTaskRecord) -> frozenset[TopicPartition]:
        if self.context.losses.flow_stopped_by is not None:
            return frozenset()
        pauses = self.context.configs.pauses
        if pauses == NO_PAUSES:
            return record.partitions
        return frozenset(partition for partition in record.partitions if not pauses.covers(partition.topic))

    def _grant(self, run: SourceTaskRun, now: float) -> None:
        record = self.context.configs.source_tasks.records[run.source_task]
        granted = self._unpaused(record)
        if self._restarts(run, now):
            lane = self._lane_state(run.source_task)
            why = lane.source_task.error if lane is not None and lane.source_task.error else "requested through REST"
            log.warning("%s: restarting source task %d: %s", self._flow, run.source_task, why)
            run.restart += 1
            run.failed_at = None
        run.record, run.granted = record, granted
        run.acceptances = self.context.losses.acceptances
        self._lease_service.put(self._lease(run))
        if not self._lease_service.board.idle((self._flow, run.source_task)):
            self._handed_out(run)

    def _drain(self, run: SourceTaskRun) -> None:
        run.reassigned = False
        if not run.draining:
            run.draining_since = asyncio.get_running_loop().time()
            if run.record is not None:
                self._lease_service.put(self._lease(run))

    def _end_if_drained(self, run: SourceTaskRun, now: float) -> None:
        """Release a revoked source task that has drained or has exceeded the timeout."""
        if run.draining_since is None:
            return
        key, lane, board = (self._flow, run.source_task), self._lane_state(run.source_task), self._lease_service.board
        drained = run.record is None or (lane is not None and lane.source_task.drained)
        never_started = lane is None and board.idle(key)
        timeout_s = self.context.settings.worker.task_shutdown_graceful_timeout_ms / 1000
        timed_out = now - run.draining_since > timeout_s
        if drained or never_started or (timed_out and not board.lane_has(key) and not board.runs(key)):
            if timed_out or self._release_is_stored(run, orderly=drained or not run.used):
                self._release(run)
        elif timed_out and board.lane_has(key):
            run.abandoned = True
            log.warning(
                "%s: source task %d did not drain within %.0f s; stopping it, so some of its records will be copied"
                " again",
                self._flow,
                run.source_task,
                timeout_s,
            )
            self._lease_service.remove(key)

    def _release_is_stored(self, run: SourceTaskRun, *, orderly: bool) -> bool:
        """Store an orderly release, so that the next owner need not fence this one; return whether that is done."""
        producer = self._producers.of(run.source_task)
        if producer is None or run.abandoned or not orderly:
            return True
        if run.release is None:
            run.release = self._reporter.release(run.source_task, producer)
            if run.release is None:
                return True
            run.release.add_done_callback(lambda _: self._lease_service.wake())
        return run.release.done()

    def _store_releases(self) -> None:
        """Store the orderly release of source tasks that have drained because the node drains."""
        for run in self._runs.values():
            lane = self._lane_state(run.source_task)
            drained = lane is not None and lane.source_task.drained
            self._release_is_stored(run, orderly=drained or not run.used)

    def _release(self, run: SourceTaskRun) -> None:
        self._lease_service.remove((self._flow, run.source_task))
        self._producers.forget(run.source_task)
        del self._runs[run.source_task]
        self._reporter.forget(run.source_task)
        if run.reassigned:
            again = SourceTaskRun(source_task=run.source_task, epoch=run.epoch, restart=run.restart + 1)
            self._runs[run.source_task] = again
            self._lease_service.wake()
        else:
            log.info("%s: source task %d released", self._flow, run.source_task)
            self.on_ended()

    def _is_settled(self, run: SourceTaskRun, record: SourceTaskRecord) -> bool:
        """Return whether every partition that runs here is in the source task's list."""
        lane = self._lane_state(run.source_task)
        if lane is None:  # a lane that was lost may write until the next one has fenced it
            return run.exposed <= record.partitions and not self._lease_service.board.runs(
                (self._flow, run.source_task)
            )
        return lane.current and lane.running <= record.partitions

    # -- leases

    async def _prepare_lease(self, source_task: int) -> None:
        """Fence the run of a lane that another one replaces, and read the current stored offsets."""
        run = self._runs.get(source_task)
        if run is not None and run.record is not None:
            await self._producers.wait(source_task, lambda: self._remote(run))
            await self._leases.refresh()

    def _hand_out(self, source_task: int) -> SourceTaskLease | None:
        """Return the lease of a source task whose lane (re)starts; None if it ended."""
        run = self._runs.get(source_task)
        if run is None or run.record is None:
            return None
        lease = self._lease(run)
        self._handed_out(run)
        return lease

    def _handed_out(self, run: SourceTaskRun) -> None:
        """A lane may write to the granted partitions with the current producer from now on."""
        if self._producers.spend(run.source_task):
            run.exposed = frozenset()  # earlier producers are fenced
        run.exposed |= run.granted
        run.used = True

    def _lease(self, run: SourceTaskRun) -> SourceTaskLease:
        run.skips = self.context.configs.skips.of(run.granted)
        return self._leases.lease(
            run.source_task,
            run.granted,
            epoch=run.epoch,
            restart=run.restart,
            producer=self._producers.of(run.source_task),
            drain=run.draining or self._frozen,
            skips=run.skips,
        )

    def _lane_state(self, source_task: int) -> LaneState | None:
        return self._lease_service.board.progress((self._flow, source_task))
