"""The node's state of one lane: its orders, its lease, and its last report."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mm2.core.lanes.accumulated_progress import AccumulatedProgress, PartitionStates
from mm2.core.lanes.lease import LaneQuery, LeaseRefusedError, SourceTaskLease
from mm2.core.lanes.progress_reports import LaneProgress, SourceTaskProgress
from mm2.core.lanes.query_trials import NO_TRIAL, QueryTrial
from mm2.core.naming.names import Flow, TopicPartition

FIRST_RESTART_S = 0.5
LONGEST_RESTART_S = 30.0
"""The restart backoff of a lane that keeps failing starts at 0.5 s and doubles each time: a permanent failure must not
burn CPU, and a repaired one should not wait for minutes."""

IMMEDIATE_RESTARTS = 3
"""So many restarts in a row have no backoff, as many as Spark's own retries by default: copying is interrupted as
briefly as possible when the process of a lane is killed."""

HEALTHY_AFTER_S = 60.0
"""A lane that ran for this long resets the backoff."""

QUERY_START_S = 30.0
"""The next query starts when this one has its lease, or after this time: compiling a query and starting its processes
takes seconds of CPU, and many at once on few cores delay each other for minutes."""

SourceTaskKey = tuple[Flow, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowQuery:
    """What all source tasks of a SQL lane have in common."""

    flow: Flow
    query: LaneQuery

    @classmethod
    def of(cls, lease: SourceTaskLease) -> FlowQuery | None:
        """Return the query of a source task with its flow; None: it runs in a plain lane."""
        return None if lease.query is None else cls(flow=lease.flow, query=lease.query)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneState:
    """A lane's last report about a source task, its session, and whether it reflects the newest orders (``current``).

    ``source_task`` and each of its partitions remain the same objects while nothing changes (`AccumulatedProgress`, B).
    ``states`` is a new object only when the state or the error of a partition has changed. ``running`` are the
    partitions that the source task is possibly still copying.
    """

    session: str
    current: bool
    source_task: SourceTaskProgress
    states: PartitionStates
    running: frozenset[TopicPartition]


@dataclass(slots=True, kw_only=True)
class ManagedLane:
    """The state of one lane.

    ``runs``: only source tasks of this flow with this query; None: a plain lane. ``refused``: why the query cannot run,
    so that the lane is not started.
    ``nonce``: of the process that has used ``token``; None: not used yet.
    ``source_tasks`` are its orders and ``version`` is their version. ``removed`` are the source tasks that were removed
    from the orders, each with the version of the first orders without it. ``ordered_at``, ``granted_at`` and
    ``heard_at`` are when the engine was last ordered to run the lane, when it got its lease, and when it last reported,
    in seconds of a monotonic clock. ``error`` is why the lane does not run, and ``ended_by`` is the error that ended it
    last, until it has run for `HEALTHY_AFTER_S`: a lane that fails at the same record again and again runs in between.
    ``trial`` is how its frames pass through its query, by its orders.
    """

    number: int
    token: str
    runs: FlowQuery | None = None
    refused: str | None = None
    nonce: str | None = field(default=None, repr=False)
    session: str | None = None
    version: int = 0
    ordered_at: float | None = None
    granted_at: float | None = None
    heard_at: float | None = None
    failures: int = 0
    not_before: float = 0.0
    progress: LaneProgress | None = None
    accumulated: dict[SourceTaskKey, AccumulatedProgress] = field(default_factory=dict)
    unplaced: bool = False
    starved_until: float | None = None
    source_tasks: dict[SourceTaskKey, SourceTaskLease] = field(default_factory=dict)
    removed: dict[SourceTaskKey, int] = field(default_factory=dict)
    error: str | None = None
    ended_by: str | None = None
    trial: QueryTrial = NO_TRIAL

    # -- its lease

    def begin(self, session: str, nonce: str, now: float) -> None:
        """Record that a process has received the lease."""
        self.session, self.nonce = session, nonce
        self.granted_at = self.heard_at = now
        self.progress, self.accumulated, self.removed = None, {}, {}
        self.starved_until = None

    def starts_query(self, now: float) -> bool:
        """Return whether its query is compiled, or its processes start, since `QUERY_START_S` at most.

        A lane that waits for an executor of a cluster uses no CPU here.
        """
        ordered_at = self.ordered_at
        if self.runs is None or self.session is not None or self.unplaced or ordered_at is None:
            return False
        return now - ordered_at <= QUERY_START_S

    def end(self, token: str, error: str | None, now: float, *, wanted: bool) -> None:
        """Invalidate the lease and its reports; the next start uses ``token``.

        ``wanted``: the lane should still be running, so that it is restarted: immediately at first, then after a
        backoff.
        """
        ran = now - self.granted_at if self.granted_at is not None else 0.0
        if not wanted:  # it ended because it had no source tasks
            self.failures, self.not_before = 0, now
        else:
            self.failures = 1 if ran > HEALTHY_AFTER_S else self.failures + 1
            late = self.failures - IMMEDIATE_RESTARTS
            self.not_before = now + (min(FIRST_RESTART_S * 2 ** (late - 1), LONGEST_RESTART_S) if late > 0 else 0.0)
        self.token = token
        self.nonce = None
        self.session = self.ordered_at = self.granted_at = self.heard_at = self.progress = None
        self.accumulated = {}
        self.unplaced = False
        self.error = error

    # -- its reports

    def take(self, progress: LaneProgress, now: float) -> bool:
        """Apply a report; return whether it contains changes.

        Raises LeaseRefusedError if the first report about a source task is incomplete.
        """
        before, self.heard_at, self.error = self.progress, now, None
        if self.granted_at is not None and now - self.granted_at > HEALTHY_AFTER_S:
            self.ended_by = None
        accumulated, news = {}, False
        for source_task in progress.source_tasks:
            key = (source_task.flow, source_task.source_task)
            known = accumulated[key] = self.accumulated.get(key) or _first_progress(source_task)
            news |= known.take(source_task)
        news |= before is None or before.version != progress.version or accumulated.keys() != self.accumulated.keys()
        self.accumulated = accumulated
        self.progress = replace(progress, source_tasks=tuple(known.progress for known in accumulated.values()))
        self.removed = {key: version for key, version in self.removed.items() if version > progress.version}
        return news

    @property
    def current(self) -> bool:
        """Whether the last report reflects the newest orders."""
        return self.progress is not None and self.progress.version == self.version

    def state_of(self, key: SourceTaskKey) -> LaneState | None:
        """Return the last report about a source task, if there is one."""
        known = self.accumulated.get(key)
        if self.session is None or self.progress is None or known is None:
            return None
        return LaneState(
            session=self.session,
            current=self.current,
            source_task=known.progress,
            states=known.states,
            running=known.running,
        )

    def may_run(self, key: SourceTaskKey) -> bool:
        """Return whether the lane is possibly running the source task, regardless of its orders."""
        if self.session is None:
            return False
        if key in self.removed:  # possibly started, and the orders without it have not been applied yet
            return True
        known = self.accumulated.get(key)
        if known is None:  # its orders were possibly delivered, and the lane has not reported about them yet
            return key in self.source_tasks and not self.current
        return not known.progress.drained

    @property
    def drained(self) -> bool:
        """Whether none of its source tasks runs, or each has reported that it is drained."""
        if self.session is None or not self.source_tasks:
            return True
        if self.progress is None:
            return False
        never_started = self.current  # a missing source task was to be drained before it had started
        return all(
            known.progress.drained if (known := self.accumulated.get(key)) else never_started
            for key in self.source_tasks
        )

    # -- status

    @property
    def preference(self) -> tuple[bool, int, int]:
        """The sort key for placing source tasks; the lane with the smallest value gets the next one."""
        partitions = sum(len(lease.partitions) + 1 for lease in self.source_tasks.values())
        return self.starved_until is not None, partitions, self.number


def _first_progress(source_task: SourceTaskProgress) -> AccumulatedProgress:
    try:
        return AccumulatedProgress(source_task)
    except ValueError as error:
        raise LeaseRefusedError(str(error)) from error
