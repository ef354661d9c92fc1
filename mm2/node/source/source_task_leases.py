"""The leases of a node's source tasks: when one is due, the producer that comes with it, and what it grants.

`SourceTaskQueries` tells which partitions of a list are copied, `MissingPermissions` when the target permits what it
did not permit for earlier leases.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from mm2.config.settings import FlowSettings
from mm2.config.sql.topic_queries import TopicQuery
from mm2.core.assignment.query_source_tasks import query_index
from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.coordination.pauses import NO_PAUSES
from mm2.core.lanes.accumulated_progress import PartitionStates
from mm2.core.lanes.lease import LaneQuery, SourceTaskLease, TaskProducer
from mm2.core.lanes.source_task_steps import LaneView, SourceTaskState, SourceTaskView, Step, StepKind, next_step
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow, TopicPartition
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.common.current_error import CurrentError
from mm2.node.engine.lease_service import Wake
from mm2.node.engine.managed_lane import LaneState
from mm2.node.flow.task_runner import TaskContext
from mm2.node.source.assigned_source_task import AssignedSourceTask, loop_time
from mm2.node.source.lease_builder import LeaseBuilder
from mm2.node.source.query_use_reporter import QueryUseReporter
from mm2.node.source.source_task_fence import SourceTaskFence
from mm2.node.source.task_producers import TaskProducers
from mm2.node.source.uncommitted_copies import UncommittedCopies

log = logging.getLogger(__name__)

HELD_LOOK_S = 2.0
"""How often it is looked whether an operator has decided about partitions that are held."""

CHECK_EVERY_S = 30.0
"""How often it is tried whether the target permits what leases lack; as often as a FAILED partition is tried again,
since a missing ACL is the usual cause of both."""


class SourceTaskLeases:
    """Grants leases to the lanes that run source tasks.

    (A) A source task copies the partitions of its newest list that are not paused, and that are for its query
        (`SourceTaskQueries`). Partitions that the `LeaseBuilder` holds are left out.
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
        self._board = context.lease_service.board
        self._builder = LeaseBuilder(
            settings, settings.admin_class(context.target), context.topics.source_offsets, context.losses
        )
        self._producers = TaskProducers(
            settings.flow,
            SourceTaskFence(settings, records, context.statuses.release),
            after_loss=self._store_uncommitted_copies,
            changed=partial(self._lease_service.wake, Wake.FENCED),
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
            settings.flow, self._producers, self._builder, changed=partial(self._lease_service.wake, Wake.FENCED)
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

    def lane_view(self, task: AssignedSourceTask) -> LaneView:
        """Return what the lanes know about the source task."""
        return self._board.view((self._flow, task.source_task))

    def lane_state(self, source_task: int) -> LaneState | None:
        """Return what the lane of the source task has reported; None: nothing yet."""
        return self._board.progress((self._flow, source_task))

    async def refresh(self, tasks: Iterable[AssignedSourceTask] = ()) -> None:
        """Read what leases of these source tasks are built from. Raises ClusterError."""
        async with self._refreshing:
            self._look_at = loop_time() + HELD_LOOK_S
            records = self._context.configs.source_tasks.records
            for task in tasks:
                if task.source_task in records:
                    self._listed[task.source_task] = records[task.source_task].partitions
            await self._builder.refresh(frozenset().union(*self._listed.values()))

    def must_look(self, now: float) -> bool:
        """Return whether held partitions can have been decided about since the last `refresh`."""
        return bool(self._builder.held) and now >= self._look_at

    # -- granting

    def next_step(self, task: AssignedSourceTask, now: float) -> Step:
        """Return the next step of the source task. Raises PluginError. Not for a node that drains (`frozen`)."""
        lane = self.lane_view(task)
        drain_within_s = self._context.settings.worker.task_shutdown_graceful_timeout_ms / 1000
        return next_step(self._view(task, lane, now), lane, now, drain_within_s=drain_within_s)

    def _view(self, task: AssignedSourceTask, lane: LaneView, now: float) -> SourceTaskView:
        record = None if task.is_ending else self._context.configs.source_tasks.records.get(task.source_task)
        restarts = not task.is_ending and task.assigned is not None and self._restarts(task, lane, now)
        return SourceTaskView(
            state=task.state,
            since=task.since,
            is_listed=record is not None,
            is_leased=task.assigned is not None,
            is_due=record is not None and self._is_due(task, record, restarts=restarts),
            restarts=restarts,
            awaits_leader=self.waits_for_leader(task.source_task),
            has_producer=self._producers.is_ready(task.source_task),
            is_used=task.used,
            stores_release=self.producer(task.source_task) is not None,
            release_stored=None if task.release is None else task.release.done(),
        )

    def _is_due(self, task: AssignedSourceTask, record: SourceTaskRecord, *, restarts: bool) -> bool:
        """Return whether the source task needs a new lease. Raises PluginError."""
        if record != task.assigned:
            self._recreated |= self._builder.take_topic_ids(record)
        if task.assigned is None or self._to_copy(record) != task.leased:
            return True
        self._take_list(task, record)
        if task.acceptances != self._context.losses.acceptances:
            return True  # a partition that was stopped by a loss can continue
        if self._context.configs.skips.of(task.leased) != task.skips:
            return True
        if any(partition.topic in self._recreated for partition in task.leased):
            return True  # the lane receives the new topic IDs and decides how to continue
        return restarts

    @staticmethod
    def _restarts(task: AssignedSourceTask, lane: LaneView, now: float) -> bool:
        """Return whether the next lease is to restart the source task."""
        return task.restarts.is_due(now, has_failed=lane.has_failed)

    def fence(self, task: AssignedSourceTask) -> None:
        """Acquire the producer of the next run, unless that is being done. Raises PluginError."""
        self._producers.acquire(task.source_task, self._remote(task))

    def note_due(self, task: AssignedSourceTask) -> None:
        """Note for which list a lease is due, before `refresh`."""
        self._due[task.source_task] = self._context.configs.source_tasks.records[task.source_task]

    def complete(self, tasks: Iterable[AssignedSourceTask], now: float) -> None:
        """Restart the source tasks whose leases lack fencing or exact offsets, if the target permits it now."""
        permitted = self._permissions.take_permitted(now)
        for task in tasks:
            if task.source_task in permitted and task.assigned is not None and not task.is_ending:
                task.restarts.request("the target permits now what was missing when it was started")

    def grant(self, tasks: Iterable[AssignedSourceTask], now: float) -> None:
        """Grant a lease to each of these source tasks, which were due (`note_due`) before the last `refresh`.

        A list that has changed since then is left for the next time: what is known about its partitions is older.
        Raises PluginError.
        """
        records = self._context.configs.source_tasks.records
        for task in tasks:
            due = self._due.get(task.source_task)
            if due is None or records.get(task.source_task) is not due:
                continue
            step = self.next_step(task, now)
            if step.kind is StepKind.GRANT:
                self._grant(task, due, now)
                task.take(step, now)
        self._recreated.clear()

    def _grant(self, task: AssignedSourceTask, record: SourceTaskRecord, now: float) -> None:
        leased = self._to_copy(record)
        if task.assigned is not None and self._restarts(task, self.lane_view(task), now):
            lane = self.lane_state(task.source_task)
            why = task.restarts.requested or (lane.source_task.error if lane is not None else None)
            log.warning("%s: restarting source task %d: %s", self._flow, task.source_task, why)
            task.restarts.restarted(now)
        self._take_list(task, record)
        task.leased = leased
        task.acceptances = self._context.losses.acceptances
        self.renew(task)
        if self.lane_view(task).is_started:
            self._handed_out(task)

    def renew(self, task: AssignedSourceTask) -> None:
        """Put the lease of the source task in its lane's orders, as it has to be now. Raises PluginError."""
        self._lease_service.put(self._lease(task))

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

    def held_back(self, task: AssignedSourceTask) -> PartitionStates:
        """Return the state of listed partitions that no lane can copy now, with the reason.

        They are those for another query, those whose start is not known, or all if Spark has rejected the query of the
        source task.
        """
        refused = self._board.refused((self._flow, task.source_task))
        held = self._builder.held
        if refused is None and not held:
            return task.excluded
        listed = task.assigned.partitions if task.assigned is not None else frozenset[TopicPartition]()
        held = {one: held[one] for one in held.keys() & listed}
        return {**dict.fromkeys(task.leased if refused else (), (TaskState.FAILED, refused)), **held, **task.excluded}

    def _take_list(self, task: AssignedSourceTask, record: SourceTaskRecord) -> None:
        task.assigned, task.excluded = record, self._queries.listed(record).excluded

    def _lease(self, task: AssignedSourceTask) -> SourceTaskLease:
        task.skips = self._context.configs.skips.of(task.leased)
        lease = self._builder.lease(
            task.source_task,
            task.leased,
            epoch=task.epoch,
            restart=task.restarts.count,
            producer=self.producer(task.source_task),
            drain=task.is_ending or self.frozen,
            skips=task.skips,
            repeats=self._context.configs.repeats,
            query=self._queries.of(task.source_task),
        )
        self._query_uses.granted(lease)
        self._permissions.granted(task.source_task)
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

    async def prepare(self, task: AssignedSourceTask) -> None:
        """Fence the run of a lane that another one replaces, and read the current stored offsets."""
        if not self._producers.is_ready(task.source_task):
            if not task.is_ending:
                task.enter(SourceTaskState.FENCING, loop_time(), "fencing the run that its lane replaces")
            await self._producers.wait(task.source_task, self._remote(task))
        await self.refresh([task])

    def hand_out(self, task: AssignedSourceTask) -> SourceTaskLease:
        """Return the lease of a source task whose lane (re)starts."""
        lease = self._lease(task)
        self._handed_out(task)
        if not task.is_ending:
            task.enter(SourceTaskState.LEASED, loop_time(), "waiting for its lane to start it")
        return lease

    def _handed_out(self, task: AssignedSourceTask) -> None:
        """A lane may write to the granted partitions with the current producer from now on."""
        if self._producers.mark_used(task.source_task):
            task.unfenced_partitions = frozenset()  # earlier producers are fenced
        task.unfenced_partitions |= task.leased
        task.used = True

    # -- producers

    def producer(self, source_task: int) -> TaskProducer | None:
        """Return the current producer of the source task; None: it writes without fencing."""
        return self._producers.of(source_task)

    def waits_for_leader(self, source_task: int) -> bool:
        """Return whether the leader has to fence lost owners first, which may be Java's, and to record the new ones."""
        context = self._context
        return context.settings.worker.exactly_once and not context.configs.fencing.covers(source_task)

    def _remote(self, task: AssignedSourceTask) -> frozenset[TopicPartition]:
        """Return all remote partitions that earlier owners and runs may be writing. Raises PluginError."""
        record = self._context.configs.source_tasks.records.get(task.source_task)
        listed = record.partitions if record is not None else frozenset[TopicPartition]()
        return self._builder.remote(listed | task.leased | task.unfenced_partitions)

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
            ends = self._builder.stored_ends(record.partitions, self._context.configs.repeats)
            found = await self._uncommitted.find(ends)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPartitions:
    """The partitions of a list: the ``copied`` ones, and the others with their state, WAITING, and the reason."""

    copied: frozenset[TopicPartition]
    excluded: PartitionStates


class SourceTaskQueries:
    """Decides what a source task of this node copies.

    (A) A partition is copied only with the query that this node's settings have for its topic, or without a query if
        they have none, and only if the leader's query has the same name. A list can contain others: it is from before a
        reload, or from a leader with another file.

    Queries, and with queries tasks.max, restart the flow (`UpdateMode.FLOW`), so that they do not change meanwhile.
    """

    def __init__(self, settings: FlowSettings) -> None:
        self._settings = settings
        self._queries = settings.queries.in_order
        self._known: dict[int, tuple[SourceTaskRecord, ListedPartitions]] = {}

    def of(self, source_task: int) -> LaneQuery | None:
        """Return the query for all records of a source task; None: it copies them as they are, or copies nothing."""
        query = self._query(source_task)
        if query is None:
            return None
        return LaneQuery(name=query.name, action=query.action, hides_values=query.hides_values)

    def listed(self, record: SourceTaskRecord) -> ListedPartitions:
        """Return which partitions of a list are copied; the same object for the same list.

        Raises PluginError if a custom policy fails.
        """
        known = self._known.get(record.source_task)
        if known is None or known[0] is not record:
            known = self._known[record.source_task] = record, self._listed(record)
        return known[1]

    def _listed(self, record: SourceTaskRecord) -> ListedPartitions:
        if not self._queries and record.query is None:
            return ListedPartitions(copied=record.partitions, excluded={})
        reasons = {topic: self._reason(topic, record) for topic in {one.topic for one in record.partitions}}
        excluded = {
            partition: (TaskState.WAITING, reason)
            for partition in record.partitions
            if (reason := reasons[partition.topic]) is not None
        }
        return ListedPartitions(copied=record.partitions - excluded.keys(), excluded=excluded)

    def _reason(self, topic: str, record: SourceTaskRecord) -> str | None:
        """Return why the source task does not copy a topic; None if it does."""
        query = self._settings.query_of(topic)
        name = None if query is None else query.name
        if name == record.query and self._is_for(record.source_task, query):
            return None
        expected, listed = ("no query" if one is None else f"query {one}" for one in (name, record.query))
        differ = (
            f"the leader has {listed}" if name != record.query else f"source task {record.source_task} is for others"
        )
        return (
            f"topic {topic} has {expected} in this node's file, but {differ}; waiting for the leader to assign it again"
            " (if this lasts, the nodes' files differ)"
        )

    def _is_for(self, source_task: int, query: TopicQuery | None) -> bool:
        """Return whether the number of a source task stands for this query; None: for none."""
        index = None if query is None else self._queries.index(query)
        return query_index(source_task, self._settings.source.tasks_max) == index

    def _query(self, source_task: int) -> TopicQuery | None:
        index = query_index(source_task, self._settings.source.tasks_max)
        return None if index is None or index >= len(self._queries) else self._queries[index]


class MissingPermissions:
    """Finds the source tasks whose leases can be completed.

    (A) The target is asked in the background, so that no source task waits for its answers.
    (B) A round ends with the first source task that the target still does not fence; the next round begins with
        another one, since each has an ACL of its own.
    """

    def __init__(
        self, flow: Flow, producers: TaskProducers, builder: LeaseBuilder, *, changed: Callable[[], None]
    ) -> None:
        """``changed`` is called when a lease can be completed."""
        self._flow = flow
        self._producers = producers
        self._builder = builder
        self._changed = changed
        self._without_exact_offsets: set[int] = set()
        self._permitted: set[int] = set()
        self._asked = -1  # the last source task that the target was asked about
        self._check_at: float | None = None  # None: no lease lacks anything
        self._round: asyncio.Task[None] | None = None

    def granted(self, source_task: int) -> None:
        """The source task has a new lease."""
        if self._builder.lacks_exact_offsets:
            self._without_exact_offsets.add(source_task)
        else:
            self._without_exact_offsets.discard(source_task)

    def forget(self, source_task: int) -> None:
        """The source task was released."""
        self._without_exact_offsets.discard(source_task)

    def take_permitted(self, now: float) -> set[int]:
        """Return source tasks whose leases lack something that the target permits now.

        Starts a round if one is due. ``now`` is in seconds of the event loop's clock.
        """
        lacking = self._without_exact_offsets.union(self._producers.unfenced)
        found, self._permitted = self._permitted & lacking, set()
        if not lacking:
            self._check_at = None
        elif self._check_at is None:
            self._check_at = now + CHECK_EVERY_S
        elif now >= self._check_at and (self._round is None or self._round.done()):
            self._check_at = now + CHECK_EVERY_S
            self._round = asyncio.create_task(self._check(), name=f"{self._flow} what leases lack")
        return found

    async def close(self) -> None:
        """End the current round."""
        if self._round is not None:
            await cancel_and_wait([self._round])

    async def _check(self) -> None:
        try:
            if self._without_exact_offsets:
                await self._builder.refresh_exact_offsets()
                if not self._builder.lacks_exact_offsets:
                    self._permit(self._without_exact_offsets)
            for source_task in sorted(self._producers.unfenced, key=lambda one: (one <= self._asked, one)):
                self._asked = source_task
                if not await self._producers.fences_again(source_task):
                    return
                self._permit([source_task])
        except Exception:
            log.exception(
                "%s: unexpected error while looking whether the target permits fencing and exact offsets; retrying in"
                " %.0f s",
                self._flow,
                CHECK_EVERY_S,
            )

    def _permit(self, source_tasks: Iterable[int]) -> None:
        self._permitted.update(source_tasks)
        self._changed()
