"""The assignment of source tasks to lanes, and of lanes to the engines of a node.

A state machine without clock and I/O: events in (`put`, `grant`, `lane_report`, `engine_report`, …), orders out. Times
are arguments, in seconds of a monotonic clock, so that an incident can be replayed as a unit test.

Invariants:
(A) A source task is in the orders of at most one lane.
(B) At most one session per lane is valid, and a token grants one: who reads it later gets nothing for it. Each run of
    a lane has a new token, and invalidates the session of the previous one.
(C) The engine is ordered to run a lane only while the lane has source tasks, is kept running, or has not yet ended.
(D) A source task is moved only from a lane that has no lease, and that lane cannot get a lease for it later.
(E) Source tasks without a query run in plain lanes. Those with a query run in SQL lanes, each for one query of one
    flow, with numbers after those of the plain lanes. Another text of a query is another query.
(F) When SQL lanes have died with a record, it does not pass through its query again (`QueryTrials`).
(G) A lane runs in one engine only, also after restarts. The loss of an engine affects only its own lanes.
(H) SQL lanes start one after the other, but none delays others for longer than `QUERY_START_S`, or while it waits for
    an executor of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from mm2.core.lanes.engine_orders import EngineOrders, EngineReport, EngineRole, LaneStart
from mm2.core.lanes.lease import LaneOrders, LeaseRefusedError, LeaseRequest, SourceTaskLease, credentials_of
from mm2.core.lanes.progress_reports import LaneProgress
from mm2.core.lanes.query_trials import FrameSpan
from mm2.core.lanes.source_task_steps import LaneView
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow, TopicPartition
from mm2.node.engine.lane_placement import LOST_AFTER_S, STARVED_FOR_S, LanePlacement
from mm2.node.engine.managed_lane import FlowQuery, LaneState, ManagedLane, SourceTaskKey
from mm2.node.engine.query_trials import QueryTrials
from mm2.node.engine.tokens import is_same_secret
from mm2.node.status.status_model import LaneBuffer, LaneMemory

LEASE_SECONDS = 15.0
"""Longer than a garbage collection pause or a busy node, and short enough to replace a dead lane soon."""

START_WITHIN_S = 120.0
"""Time for an ordered lane to request its lease; after that it is restarted, as Spark has lost it."""

AWAITS_ITS_START = "queries start one after the other, and another one is starting"
"""Why a SQL lane has not been ordered yet."""


class LaneBoard:
    """All lanes of one node.

    ``lanes`` is the maximum number of plain lanes, and of SQL lanes for each query; a lane is started when source tasks
    need it. ``cluster`` is the Spark master whose executors the lanes wait for, None if they need no executors.
    ``flows`` are those with source tasks on this node, for the descriptions of lanes. ``query_engine`` runs the SQL
    lanes. ``engines`` are the last reports of the engines that run.
    """

    def __init__(
        self,
        *,
        lanes: int,
        buffer_bytes: int,
        new_secret: Callable[[], str],
        cluster: str | None = None,
        lease_s: float = LEASE_SECONDS,
    ) -> None:
        """``lease_s``: seconds after which a lane that has not reported its progress loses its lease."""
        self.lease_s = lease_s
        self._lanes = LanePlacement(lanes=lanes, new_secret=new_secret, cluster=cluster)
        self.flows: Collection[Flow] = ()
        self._buffer_bytes = buffer_bytes
        self._new_secret = new_secret
        self._cluster = cluster
        self.query_engine = EngineRole.QUERIES if cluster is None else EngineRole.MAIN
        self._credentials: Mapping[str, str] = {}
        self._log_levels: Mapping[str, str] = {}
        self._trials = QueryTrials()
        self._versions = dict.fromkeys(EngineRole, 0)
        self._ending = False
        self._kept_running = 0
        self.engines: dict[EngineRole, EngineReport] = {}

    # -- orders of the flows

    def put(self, lease: SourceTaskLease) -> None:
        """Run this source task, or change its lease.

        A new source task is assigned to the lane with the fewest partitions, if possible one that has an executor. With
        a query that Spark has rejected, it waits with the others that have this query; a restart tries again.

        Raises ValueError if the query differs from that of the last lease: remove the source task first, and wait
        until no lane runs it.
        """
        key = (lease.flow, lease.source_task)
        lane = self._lanes.lane_of(key) or self._lanes.lane_for(FlowQuery.of(lease))
        if lane.runs != FlowQuery.of(lease):
            raise ValueError(f"{lease.flow}: source task {lease.source_task} has another query than lane {lane.number}")
        known = lane.source_tasks.get(key)
        if known == lease:
            return
        if known is not None and known.restart != lease.restart:
            lane.refused = None
        lane.source_tasks[key] = lease
        self._bump(lane)

    def remove(self, key: SourceTaskKey) -> None:
        """Stop this source task without draining it."""
        lane = self._lanes.lane_of(key)
        if lane is not None:
            del lane.source_tasks[key]
            self._bump(lane)
            lane.removed[key] = lane.version
            self._lanes.forget_ended()

    def keep_running(self, lanes: int) -> None:
        """Keep this number of plain lanes running without source tasks, so that new ones start immediately."""
        if lanes != self._kept_running:
            self._kept_running = lanes
            for lane in self._lanes.alike(None):
                self._bump(lane)

    def move(self, lease: SourceTaskLease, now: float) -> None:
        """Move this source task, with this lease, to a lane that has an executor, if its own lane still has none."""
        key = (lease.flow, lease.source_task)
        lane = self._lanes.lane_of(key)
        if lane is None or not self._lanes.has_waited_too_long(lane, now):
            return
        lane.starved_until = now + STARVED_FOR_S
        del lane.source_tasks[key]
        if not lane.source_tasks:
            self._restart(lane, None, now)  # a new token, so that it gets no lease if it starts later
        other = self._lanes.with_executor(lane)
        other.source_tasks[key] = lease
        self._bump(other)
        self._lanes.forget_ended()

    def use_credentials(self, credentials: Mapping[str, str]) -> None:
        """Send lanes on a cluster these contents of files; others read the files themselves."""
        if self._cluster is not None and credentials != self._credentials:
            self._credentials = credentials
            for lane in self._lanes:
                self._bump(lane)

    def use_log_levels(self, levels: Mapping[str, str]) -> None:
        """Let engines and lanes log from these levels on, by logger."""
        if levels != self._log_levels:
            self._log_levels = levels
            for engine in self._versions:
                self._versions[engine] += 1
            for lane in self._lanes:
                self._bump(lane)

    def drain(self) -> None:
        """Have every source task complete the records in flight and store its offsets."""
        for lane in self._lanes:
            for key, lease in lane.source_tasks.items():
                lane.source_tasks[key] = replace(lease, drain=True)
            self._bump(lane)

    def end(self) -> None:
        """Have every lane end."""
        self._ending = True
        for lane in self._lanes:
            self._bump(lane)

    def retry_records(self, key: SourceTaskKey) -> None:
        """Let the records of a source task pass through its query that have ended it: an operator restarts it."""
        lane = self._lanes.lane_of(key)
        if lane is not None:
            partitions = [TopicPartition(one.topic, one.partition) for one in lane.source_tasks[key].partitions]
            self._trials.forget(lane.runs, partitions)
            self._update_trials()

    # -- reports of lanes

    def source_tasks_of(self, lane_number: int) -> tuple[SourceTaskKey, ...]:
        """Return the source tasks that are assigned to a lane."""
        return tuple(self._lanes.lane(lane_number).source_tasks)

    def grant(self, lane_number: int, request: LeaseRequest, now: float) -> str:
        """Grant the lane's lease to this attempt; return the session secret. Raises LeaseRefusedError.

        The same process can repeat its request until its first report, in case the response was lost.
        """
        lane = self._lanes.lane(lane_number)
        if not is_same_secret(request.token, lane.token):
            raise LeaseRefusedError(f"lane {lane_number}: the token is not that of the current run")
        again = lane.progress is None and lane.nonce is not None and is_same_secret(request.nonce, lane.nonce)
        if lane.nonce is not None and not again:
            raise LeaseRefusedError(f"lane {lane_number}: another process holds the lease")
        session = self._new_secret()
        lane.begin(session, request.nonce, now)
        if lane.runs is not None:
            self._versions[self.query_engine] += 1  # the next query may start
        lane.trial = self._trials.trial(lane.runs)
        return session

    def check(self, lane_number: int, session: str) -> None:
        """Raise LeaseRefusedError if ``session`` is not the current session of the lane."""
        held = self._lanes.lane(lane_number).session
        if held is None or not is_same_secret(session, held):
            raise LeaseRefusedError(f"lane {lane_number}: another process holds the lease")

    def lane_report(self, lane_number: int, session: str, progress: LaneProgress, now: float) -> bool:
        """Apply a lane's report; return whether it contains changes. Raises LeaseRefusedError for an old session."""
        self.check(lane_number, session)
        self._trials.expire(now)
        self._update_trials()
        return self._lanes.lane(lane_number).take(progress, now)

    def announce(self, lane_number: int, session: str, frame: FrameSpan | None, now: float) -> bool:
        """A SQL lane announces its next frame; return whether it may pass through the query now.

        None: nothing of the lane is in the query. Raises LeaseRefusedError for an old session.
        """
        self.check(lane_number, session)
        return self._trials.announce(self._lanes.lane(lane_number), frame, now)

    def lane_orders(self, lane_number: int) -> LaneOrders:
        """Return the orders of a lane."""
        lane = self._lanes.lane(lane_number)
        return LaneOrders(
            version=lane.version,
            source_tasks=tuple(lane.source_tasks.values()),
            end=self._ending or not self._wanted(lane),
            buffer_bytes=self._buffer_bytes,
            credentials=credentials_of(lane.source_tasks.values(), self._credentials),
            trial=lane.trial,
            log_levels=self._log_levels,
        )

    # -- reports of the engines

    def engine_report(self, report: EngineReport, now: float, engine: EngineRole = EngineRole.MAIN) -> list[str]:
        """Apply an engine's report: lanes whose job has ended are restarted with a new token after their backoff.

        Return one message per lane that an error has ended, except for queries that cannot run.
        """
        found = []
        self.engines[engine] = report
        for lane in self._lanes_of(engine):
            lane.unplaced = lane.number in report.unplaced
        for end in report.ended:
            ended = self._lanes.get(end.lane)  # None: a SQL lane without source tasks that never got its lease
            if ended is None or end.token != ended.token:
                continue
            if end.error is not None and not end.refused and self._wanted(ended):
                found += self._trials.died([ended], end.error, now)
            self._restart(ended, end.error, now)
            if end.refused and ended.runs is not None:
                ended.refused = ended.error = f"query {ended.runs.query.name} cannot run: {end.error}"
            elif end.error is not None and self._wanted(ended):
                ended.ended_by = end.error
                found.append(f"lane {end.lane} failed; restarting: {end.error}")
        self._lanes.forget_ended()
        self._update_trials()
        return found

    def engine_lost(self, now: float, jvm_death: str | None = None, engine: EngineRole = EngineRole.MAIN) -> list[str]:
        """Restart the lanes of an engine, because its process has exited and they with it.

        ``jvm_death``: why Spark's JVM has ended, if that was the cause. Return what to log about records that may be
        the cause of it.
        """
        self.engines.pop(engine, None)
        lanes = self._lanes_of(engine)
        found: list[str] = []
        if jvm_death is not None:
            # also those that had not started: they would end the next JVM while frames of others are announced
            found = self._trials.died(filter(self._wanted, lanes), jvm_death, now)
        for lane in lanes:
            if lane.session is not None or lane.ordered_at is not None:
                self._restart(lane, None, now)
                lane.not_before = now  # the restart of the engine already has a backoff
        self._lanes.forget_ended()
        return found

    def expire(self, now: float) -> list[str]:
        """Expire the leases of lanes that have not reported, and find lanes that wait for Spark.

        Return one message per lane; a lane that continues to wait is not repeated.
        """
        found = []
        for lane in self._lanes:
            if lane.starved_until is not None and now > lane.starved_until:
                lane.starved_until = None
            if lane.session is not None and lane.heard_at is not None and now - lane.heard_at > self.lease_s:
                message = f"lane {lane.number}: no progress report for {self.lease_s:.0f} s; restarting"
                self._restart(lane, message, now)
            elif lane.unplaced and lane.heard_at is not None and now - lane.heard_at > LOST_AFTER_S:
                message = f"lane {lane.number}: executor lost, and no other is free; restarting"
                self._restart(lane, message, now)
            elif lane.session is not None or lane.ordered_at is None:
                continue
            elif self._lanes.is_unplaced(lane):
                engine = self.engines.get(EngineRole.MAIN)
                executors = engine.executors if engine is not None else 0
                if (waits := self._lanes.waits_longer(lane, now, executors=executors)) is None:
                    continue
                message = waits
            elif now - lane.ordered_at > START_WITHIN_S:
                message = f"lane {lane.number}: did not start within {START_WITHIN_S:.0f} s; restarting"
                self._restart(lane, message, now)
            else:
                continue
            found.append(message)
        self._lanes.forget_ended()
        return found

    def source_tasks_to_move(self, now: float) -> tuple[SourceTaskKey, ...]:
        """Return the source tasks to move, as their lane waits for an executor while other lanes have one."""
        return tuple(
            key for lane in self._lanes if self._lanes.has_waited_too_long(lane, now) for key in lane.source_tasks
        )

    def engine_orders(self, now: float, engine: EngineRole = EngineRole.MAIN) -> EngineOrders:
        """Return the lanes that an engine is to run now."""
        starts = []
        lanes = sorted(self._lanes_of(engine), key=lambda lane: lane.failures)  # a failed query is the last to start
        for lane in lanes:
            if (self._ending or not self._wanted(lane)) and lane.session is None:
                continue
            if now < lane.not_before or lane.refused is not None:
                continue
            if lane.ordered_at is None:
                if lane.runs is not None and any(one.starts_query(now) for one in self._lanes):
                    lane.error = lane.error or AWAITS_ITS_START
                    continue
                lane.ordered_at = now
                if lane.error == AWAITS_ITS_START:
                    lane.error = None
            query = None if lane.runs is None else lane.runs.query
            start = LaneStart(lane=lane.number, token=lane.token, description=self._description(lane), query=query)
            starts.append(start)
        return EngineOrders(version=self._versions[engine], lanes=tuple(starts), log_levels=self._log_levels)

    def _description(self, lane: ManagedLane) -> str:
        """Return what is fixed while the lane runs, as Spark cannot change the description of a running job."""
        flows = self.flows if lane.runs is None else (lane.runs.flow,)
        flow = f"{next(iter(flows))} " if len(flows) == 1 else ""
        return f"{flow}lane {lane.number}"

    # -- state

    def progress(self, key: SourceTaskKey) -> LaneState | None:
        """Return the last report about a source task; None before its lane's first report."""
        lane = self._lanes.lane_of(key)
        return None if lane is None else lane.state_of(key)

    def view(self, key: SourceTaskKey) -> LaneView:
        """Return what the lanes know about a source task."""
        lane, state = self._lanes.lane_of(key), self.progress(key)
        return LaneView(
            has_orders=lane is not None,
            is_started=lane is not None and lane.session is not None,
            is_reported=state is not None,
            is_current=state is not None and state.current,
            has_drained=state is not None and state.source_task.drained,
            has_failed=state is not None and state.current and state.source_task.state is TaskState.FAILED,
            is_idle=self.idle(key),
            may_run=self.runs(key),
        )

    def last_error(self, key: SourceTaskKey) -> str | None:
        """Return why the lane of a source task is not running, if known."""
        lane = self._lanes.lane_of(key)
        return None if lane is None else lane.error

    def ended_by(self, key: SourceTaskKey) -> str | None:
        """Return the error that ended the lane of a source task; None if it runs well since, or has not restarted."""
        lane = self._lanes.lane_of(key)
        if lane is None or lane.ended_by is None or lane.error is not None:
            return None
        return f"lane {lane.number} failed: {lane.ended_by}"

    def trial_reason(self, key: SourceTaskKey) -> str | None:
        """Return why the records of a source task pass through its query in small parts; None if they do not."""
        lane = self._lanes.lane_of(key)
        return None if lane is None else self._trials.reason(lane.runs)

    def refused(self, key: SourceTaskKey) -> str | None:
        """Return why the query of a source task cannot run; None if it can, as far as is known."""
        lane = self._lanes.lane_of(key)
        return None if lane is None else lane.refused

    def idle(self, key: SourceTaskKey) -> bool:
        """Return whether the lane has not started the source task, and will not start it if the orders drain it."""
        lane = self._lanes.lane_of(key)
        if lane is None or lane.session is None:
            return True
        return lane.current and key not in lane.accumulated

    def runs(self, key: SourceTaskKey) -> bool:
        """Return whether a lane is possibly running the source task, regardless of the orders."""
        return any(lane.may_run(key) for lane in self._lanes)

    @property
    def alive(self) -> bool:
        """Whether a lane is running and has reported: a plain one if any of them has source tasks.

        SQL lanes that fail do not count, because a query that fails here fails on other nodes, too.
        """
        plain = self._lanes.alike(None)
        lanes = plain if any(lane.source_tasks for lane in plain) else self._lanes
        return any(lane.session is not None and lane.progress is not None for lane in lanes)

    @property
    def kept_lanes_run(self) -> bool:
        """Whether all lanes that `keep_running` asks for have reported, so that new source tasks start immediately."""
        kept = (lane for lane in self._lanes.alike(None) if lane.number < self._kept_running)
        return all(lane.session is not None and lane.progress is not None for lane in kept)

    def buffers(self) -> tuple[LaneBuffer, ...]:
        """Return the buffers of the lanes that have reported."""
        return tuple(
            LaneBuffer(lane=lane.number, used=lane.progress.buffered_bytes, limit=self._buffer_bytes)
            for lane in self._lanes
            if lane.session is not None and lane.progress is not None
        )

    def memory(self) -> tuple[LaneMemory, ...]:
        """Return the memory of the lanes that have reported."""
        return tuple(
            LaneMemory(
                lane=lane.number,
                flow=None if lane.runs is None else str(lane.runs.flow),
                query=None if lane.runs is None else lane.runs.query.name,
                bytes=lane.progress.memory_bytes,
            )
            for lane in self._lanes
            if lane.session is not None and lane.progress is not None
        )

    def lane_has(self, key: SourceTaskKey) -> bool:
        """Return whether the source task is in the orders of a lane."""
        return self._lanes.lane_of(key) is not None

    @property
    def drained(self) -> bool:
        """Whether every running source task has reported that it is drained."""
        return all(lane.drained for lane in self._lanes)

    def _wanted(self, lane: ManagedLane) -> bool:
        return bool(lane.source_tasks) or (lane.runs is None and lane.number < self._kept_running)

    @property
    def version(self) -> int:
        """Increases when any orders change."""
        return sum(self._versions.values())

    def _engine_of(self, lane: ManagedLane) -> EngineRole:
        return EngineRole.MAIN if lane.runs is None else self.query_engine

    def _lanes_of(self, engine: EngineRole) -> list[ManagedLane]:
        return [lane for lane in self._lanes if self._engine_of(lane) is engine]

    def _bump(self, lane: ManagedLane) -> None:
        lane.version += 1
        self._versions[self._engine_of(lane)] += 1

    def _update_trials(self) -> None:
        """Send running lanes how frames pass through their queries, if that has changed.

        Not while a suspected frame becomes smaller: the lane itself knows what has returned.
        """
        for lane in self._lanes:
            now = self._trials.trial(lane.runs)
            if (now.announced, now.fatal) != (lane.trial.announced, lane.trial.fatal):
                lane.trial = now
                self._bump(lane)

    def _restart(self, lane: ManagedLane, error: str | None, now: float) -> None:
        self._trials.ended(lane)
        lane.end(self._new_secret(), error, now, wanted=self._wanted(lane))
        self._bump(lane)
