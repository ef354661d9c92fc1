"""The leases of a node's source tasks: when one is due, the producer that comes with it, and what it grants."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.coordination.pauses import NO_PAUSES
from mm2.core.lanes.accumulated_progress import PartitionStates
from mm2.core.lanes.lease import SourceTaskLease, TaskProducer
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.plugins import PluginError
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.node.common.current_error import CurrentError
from mm2.node.engine.managed_lane import LaneState
from mm2.node.flow.task_runner import TaskContext
from mm2.node.source.lease_builder import LeaseBuilder
from mm2.node.source.missing_permissions import MissingPermissions
from mm2.node.source.query_use_reporter import QueryUseReporter
from mm2.node.source.source_task_fence import SourceTaskFence
from mm2.node.source.source_task_queries import SourceTaskQueries
from mm2.node.source.source_task_run import SourceTaskRun
from mm2.node.source.task_producers import TaskProducers
from mm2.node.source.uncommitted_copies import UncommittedCopies

log = logging.getLogger(__name__)

HELD_LOOK_S = 2.0
"""How often it is looked whether an operator has decided about partitions that are held."""


class SourceTaskLeases:
    """Grants leases to the lanes that run source tasks.

    (A) A source task copies the partitions of its newest list that are not paused, and that are for its query
        (`SourceTaskQueries`).
        Partitions that the `LeaseBuilder` holds are left out.
    (B) A lane gets a lease only after earlier owners and runs of the source task are fenced, as far as the target can;
        with exactly-once, always, and after the leader has recorded its transactional ID (`TaskFencing`).
    """

    def __init__(self, context: TaskContext, records: Cluster) -> None:
        """``records`` is the target, with the settings of the producers of records."""
        settings = context.settings
        self.frozen = False  # the node drains: all leases ask lanes to drain their source tasks
        self._context = context
        self._flow = settings.flow
        self._lease_service = context.lease_service
        self._builder = LeaseBuilder(
            settings, settings.admin_class(context.target), context.topics.source_offsets, context.losses
        )
        self._producers = TaskProducers(
            settings.flow,
            SourceTaskFence(settings, records, context.statuses.release),
            after_loss=self._store_uncommitted_copies,
            changed=self._lease_service.wake,
        )
        self._uncommitted = UncommittedCopies(settings, records)
        self._queries = SourceTaskQueries(settings)
        self._query_uses = QueryUseReporter(
            settings,
            context.producer,
            context.topics.status_partitions,
            context.configs.query_histories,
            context.may_send,
        )
        self._recreated: set[str] = set()
        self._listed: dict[int, frozenset[TopicPartition]] = {}
        self._due: dict[int, SourceTaskRecord] = {}  # the lists for which leases were due
        self._refreshing = asyncio.Lock()  # each `refresh` finds out again which partitions are held
        self._look_at = float("-inf")
        self._permissions = MissingPermissions(
            settings.flow, self._producers, self._builder, changed=self._lease_service.wake
        )

    def settings_changed(self) -> None:
        """Use new settings; lanes are not affected."""
        self._builder.settings_changed(self._context.settings)

    @property
    def errors(self) -> list[str]:
        """The errors that prevent source tasks from starting, and why the target cannot fence."""
        return self._producers.errors

    def not_fenced(self, source_task: int) -> CurrentError | None:
        """Return why earlier owners of the source task could not be fenced; None if they could, as far as is known."""
        return self._producers.error_of(source_task)

    @property
    def warnings(self) -> list[str]:
        """Warnings about what leases contain."""
        return self._builder.warnings

    def lane_state(self, source_task: int) -> LaneState | None:
        """Return what the lane of the source task has reported; None: nothing yet."""
        return self._lease_service.board.progress((self._flow, source_task))

    async def refresh(self, runs: Iterable[SourceTaskRun] = ()) -> None:
        """Read what leases of these source tasks are built from. Raises ClusterError."""
        async with self._refreshing:
            self._look_at = asyncio.get_running_loop().time() + HELD_LOOK_S
            records = self._context.configs.source_tasks.records
            for run in runs:
                if run.source_task in records:
                    self._listed[run.source_task] = records[run.source_task].partitions
            await self._builder.refresh(frozenset().union(*self._listed.values()))

    def must_look(self, now: float) -> bool:
        """Return whether held partitions can have been decided about since the last `refresh`."""
        return bool(self._builder.held) and now >= self._look_at

    # -- granting

    def due(self, runs: Iterable[SourceTaskRun], now: float) -> tuple[list[SourceTaskRun], PluginError | None]:
        """Return the source tasks to grant a lease now, and an error of the others."""
        due: list[SourceTaskRun] = []
        failed: PluginError | None = None
        for run in runs:
            try:
                if not run.draining and self._is_due(run, now) and self._has_producer(run, now):
                    due.append(run)
                    self._due[run.source_task] = self._context.configs.source_tasks.records[run.source_task]
            except PluginError as error:  # the replication policy cannot name a remote topic; others continue
                failed = error
        return due, failed

    def _is_due(self, run: SourceTaskRun, now: float) -> bool:
        """Return whether the source task needs a new lease."""
        record = self._context.configs.source_tasks.records.get(run.source_task)
        if record is None or (run.assigned is None and self._lease_service.board.runs((self._flow, run.source_task))):
            return False  # not published yet, or a lane has not yet stopped it after an earlier assignment
        if record != run.assigned:
            self._recreated |= self._builder.take_topic_ids(record)
        if run.assigned is None or self._to_copy(record) != run.leased:
            return True
        self._take_list(run, record)
        if run.acceptances != self._context.losses.acceptances:
            return True  # a partition that was stopped by a loss can continue
        if self._context.configs.skips.of(run.leased) != run.skips:
            return True
        if any(partition.topic in self._recreated for partition in run.leased):
            return True  # the lane receives the new topic IDs and decides how to continue
        return self._restart_is_due(run, now)

    def complete(self, runs: Iterable[SourceTaskRun], now: float) -> None:
        """Restart the source tasks whose leases lack fencing or exact offsets, if the target permits it now."""
        permitted = self._permissions.take_permitted(now)
        for run in runs:
            if run.source_task in permitted and run.assigned is not None and not run.draining:
                run.request_restart("the target permits now what was missing when it was started")

    def grant(self, runs: Iterable[SourceTaskRun], now: float) -> None:
        """Grant a lease to each of these source tasks, which were `due` before the last `refresh`. Raises PluginError.

        A list that has changed since then is left for the next time: what is known about its partitions is older.
        """
        records = self._context.configs.source_tasks.records
        for run in runs:
            due = self._due.get(run.source_task)
            if due is not None and records.get(run.source_task) is due and self._has_producer(run, now):
                self._grant(run, now)
        self._recreated.clear()

    def _grant(self, run: SourceTaskRun, now: float) -> None:
        record = self._context.configs.source_tasks.records[run.source_task]
        granted = self._to_copy(record)
        if self._restarts(run, now):
            lane = self.lane_state(run.source_task)
            error = lane.source_task.error if lane is not None else None
            why = run.restart_reason or error
            log.warning("%s: restarting source task %d: %s", self._flow, run.source_task, why)
            run.restarted(now)
        self._take_list(run, record)
        run.leased = granted
        run.acceptances = self._context.losses.acceptances
        self.renew(run)
        if not self._lease_service.board.idle((self._flow, run.source_task)):
            self._handed_out(run)

    def renew(self, run: SourceTaskRun) -> None:
        """Put the lease of the source task in its lane's orders, as it has to be now. Raises PluginError."""
        self._lease_service.put(self._lease(run))

    def _restarts(self, run: SourceTaskRun, now: float) -> bool:
        """Return whether the next lease is to restart the source task."""
        return run.failed_at is not None and run.assigned is not None and self._restart_is_due(run, now)

    def _restart_is_due(self, run: SourceTaskRun, now: float) -> bool:
        return run.restart_is_due(self.lane_state(run.source_task), now)

    def _to_copy(self, record: SourceTaskRecord) -> frozenset[TopicPartition]:
        """Return the partitions that the lease grants. Raises PluginError."""
        if self._context.losses.flow_stopped_by is not None:
            return frozenset()
        copied, pauses = self._queries.listed(record).copied, self._context.configs.pauses
        if self._builder.held:
            copied -= self._builder.held.keys()
        if pauses == NO_PAUSES:
            return copied
        return frozenset(partition for partition in copied if not pauses.covers(partition.topic))

    def held_back(self, run: SourceTaskRun) -> PartitionStates:
        """Return the state of listed partitions that no lane can copy now, with the reason.

        They are those for another query, those whose start is not known, or all if Spark has rejected the query of the
        source task.
        """
        refused = self._lease_service.board.refused((self._flow, run.source_task))
        held = self._builder.held
        if refused is None and not held:
            return run.excluded
        listed = run.assigned.partitions if run.assigned is not None else frozenset[TopicPartition]()
        held = {one: held[one] for one in held.keys() & listed}
        return {**dict.fromkeys(run.leased if refused else (), (TaskState.FAILED, refused)), **held, **run.excluded}

    def _take_list(self, run: SourceTaskRun, record: SourceTaskRecord) -> None:
        run.assigned, run.excluded = record, self._queries.listed(record).excluded

    def _lease(self, run: SourceTaskRun) -> SourceTaskLease:
        run.skips = self._context.configs.skips.of(run.leased)
        lease = self._builder.lease(
            run.source_task,
            run.leased,
            epoch=run.epoch,
            restart=run.restart,
            producer=self.producer(run.source_task),
            drain=run.draining or self.frozen,
            skips=run.skips,
            query=self._queries.of(run.source_task),
        )
        self._query_uses.granted(lease)
        self._permissions.granted(run.source_task)
        return lease

    def report_queries(self, now: float) -> None:
        """Report which queries the source tasks apply. ``now`` is in seconds of the event loop's clock."""
        self._query_uses.report(now)

    def forget(self, source_task: int) -> None:
        """The source task was released: take its lease from the lane."""
        self._listed.pop(source_task, None)
        self._due.pop(source_task, None)
        self._lease_service.remove((self._flow, source_task))
        self._producers.forget(source_task)
        self._query_uses.forget(source_task)
        self._permissions.forget(source_task)

    async def close(self) -> None:
        """Stop fencing earlier owners."""
        await self._permissions.close()
        await self._producers.close()

    # -- requests of lanes

    async def prepare(self, run: SourceTaskRun) -> None:
        """Fence the run of a lane that another one replaces, and read the current stored offsets."""
        await self._producers.wait(run.source_task, lambda: self._remote(run))
        await self.refresh([run])

    def hand_out(self, run: SourceTaskRun) -> SourceTaskLease:
        """Return the lease of a source task whose lane (re)starts."""
        lease = self._lease(run)
        self._handed_out(run)
        return lease

    def _handed_out(self, run: SourceTaskRun) -> None:
        """A lane may write to the granted partitions with the current producer from now on."""
        if self._producers.mark_used(run.source_task):
            run.unfenced_partitions = frozenset()  # earlier producers are fenced
        run.unfenced_partitions |= run.leased
        run.used = True

    # -- producers

    def producer(self, source_task: int) -> TaskProducer | None:
        """Return the current producer of the source task; None: it writes without fencing."""
        return self._producers.of(source_task)

    def _has_producer(self, run: SourceTaskRun, now: float) -> bool:
        """Return whether earlier owners are fenced, and earlier runs if the source task is to be restarted."""
        if run.assigned is not None and not self._restarts(run, now):
            return True  # only its partitions change
        if self.waits_for_leader(run.source_task):
            return False
        return self._producers.is_ready(run.source_task, lambda: self._remote(run))

    def waits_for_leader(self, source_task: int) -> bool:
        """Return whether the leader has to fence lost owners first, which may be Java's, and to record the new ones."""
        context = self._context
        return context.settings.worker.exactly_once and not context.configs.fencing.covers(source_task)

    def _remote(self, run: SourceTaskRun) -> frozenset[TopicPartition]:
        """Return all remote partitions that earlier owners and runs may be writing. Raises PluginError."""
        record = self._context.configs.source_tasks.records.get(run.source_task)
        listed = record.partitions if record is not None else frozenset[TopicPartition]()
        return self._builder.remote(listed | run.leased | run.unfenced_partitions)

    async def _store_uncommitted_copies(self, source_task: int) -> None:
        """Store the offsets of records that the lost owner copied and did not store, so that they are not repeated.

        With exactly-once there are none: it stored its offsets in the transactions of the records.
        """
        if self._context.settings.worker.exactly_once:
            return
        record = self._context.configs.source_tasks.records.get(source_task)
        if record is None:
            return
        try:
            await self.refresh()
            found = await self._uncommitted.find(self._builder.stored_ends(record.partitions))
            for one, position in found.items():
                log.info("%s: %s was copied up to offset %d before its owner was lost", self._flow, one, position - 1)
            await self._context.topics.source_offsets.store(self._context.producer, found)
        except ClusterError as error:  # records are copied again instead
            log.info(
                "%s: cannot read the ends of remote partitions to find what the previous owner of source task"
                " %d has copied: %s",
                self._flow,
                source_task,
                error,
            )
