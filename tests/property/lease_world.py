"""Model of two nodes, their lanes and a target, which hand one source task to one another.

Of the code under test it uses `next_step`, `AssignedSourceTask` and `LaneBoard`; it does what the runner does, without
I/O. The processes of lanes and the target are written independently: a process writes until it is stopped or dies, and
the target knows which producer is the newest.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field, replace

from mm2.core.lanes.engine_orders import EngineReport, LaneEnd
from mm2.core.lanes.lease import LeaseRequest, SourceTaskLease, TaskProducer
from mm2.core.lanes.progress_reports import LaneProgress, SourceTaskProgress
from mm2.core.lanes.source_task_steps import LaneView, SourceTaskState, SourceTaskView, StepKind, next_step
from mm2.core.lanes.task_states import TaskState
from mm2.node.engine.lane_board import LaneBoard
from mm2.node.source.assigned_source_task import AssignedSourceTask
from tests.unit.node.engine.lane_boards import FLOW, source_task_lease

KEY = (FLOW, 0)
DRAIN_WITHIN_S = 5.0
LANES = 2


@dataclass
class Process:
    """A lane's process. ``writes_with``: the epoch of the producer with which it writes; None: it writes nothing."""

    session: str
    version: int = -1
    writes_with: int | None = None
    run: tuple[int, int] | None = None  # epoch and restart of the lease that it has started
    has_failed: bool = False
    drained: bool = False
    is_stuck: bool = False  # the target does not answer: it cannot drain


@dataclass
class Target:
    """The newest epoch of the task's producer, and which run has used each epoch."""

    epoch: int = 0
    used_by: dict[int, object] = field(default_factory=dict)


class Node:
    """A node with its lanes.

    ``acquiring``: a producer is being acquired. ``unused``: it was, and no run has used it yet.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        secrets = itertools.count()
        self.board = LaneBoard(lanes=LANES, buffer_bytes=1 << 20, new_secret=lambda: f"secret-{next(secrets)}")
        self.board.keep_running(LANES)
        self.task: AssignedSourceTask | None = None
        self.processes: dict[int, Process] = {}
        self.acquiring = False
        self.producer: int | None = None
        self.unused = False
        self.leased_list = -1

    @property
    def now(self) -> float:
        return self.world.now

    @property
    def writers(self) -> list[Process]:
        return [one for one in self.processes.values() if one.writes_with is not None]

    # -- the leader

    def assign(self) -> None:
        if self.task is None:
            self.task = AssignedSourceTask(source_task=0, epoch=next(self.world.epochs), since=self.now)
        elif self.task.is_ending:
            self.task.reassigned = True

    def drain(self) -> None:
        if self.task is not None:
            self.task.reassigned = False
            if not self.task.is_ending:
                self.task.enter(SourceTaskState.DRAINING, self.now, "revoked")
                if self.leased_list >= 0:
                    self.board.put(self._lease())

    def lose_membership(self) -> None:
        """The leases of the flow end before the membership does, so that no process writes any more."""
        for process in self.processes.values():
            process.writes_with = None
        if self.task is not None:
            self.task.reassigned = False
            self.task.enter(SourceTaskState.ABANDONED, self.now, "lost")
            self.board.remove(KEY)

    # -- the runner

    def tick(self) -> None:
        task, lane = self.task, self.board.view(KEY)
        if task is None:
            return
        is_leased = self.leased_list >= 0
        restarts = is_leased and task.restarts.is_due(self.now, has_failed=lane.has_failed)
        listed = self.world.listed
        view = SourceTaskView(
            state=task.state,
            since=task.since,
            is_listed=listed is not None,
            is_leased=is_leased,
            is_due=listed is not None and (listed != self.leased_list or restarts),
            restarts=restarts,
            awaits_leader=self.world.leader_fences,
            has_producer=self.unused,
            is_used=task.used,
            stores_release=self.producer is not None,
            release_stored=None if task.release is None else task.release.done(),
        )
        self._execute(task, view, lane)

    def _execute(self, task: AssignedSourceTask, view: SourceTaskView, lane: LaneView) -> None:
        step = next_step(view, lane, self.now, drain_within_s=DRAIN_WITHIN_S)
        task.take(step, self.now)
        match step.kind:
            case StepKind.FENCE:
                self.acquiring = True
            case StepKind.GRANT:
                assert self.world.listed is not None
                if view.restarts:
                    task.restarts.restarted(self.now)
                self.leased_list = self.world.listed
                self.board.put(self._lease())
                if self.board.view(KEY).is_started:
                    self._handed_out(task)
            case StepKind.STORE_RELEASE:
                task.release = self.world.loop.create_future()
            case StepKind.ABANDON:
                self.board.remove(KEY)
            case StepKind.RELEASE:
                self._released(task)

    def _released(self, task: AssignedSourceTask) -> None:
        self.board.remove(KEY)
        self.acquiring = self.unused = False
        self.task, self.producer, self.leased_list = None, None, -1
        if task.reassigned:
            self.assign()

    def acquired(self) -> None:
        if self.acquiring:
            self.world.target.epoch += 1
            self.producer, self.unused, self.acquiring = self.world.target.epoch, True, False

    def _lease(self) -> SourceTaskLease:
        assert self.task is not None
        producer = None if self.producer is None else TaskProducer("id", 1, self.producer)
        lease = source_task_lease(0, partitions=1 + self.leased_list % 2, restart=self.task.restarts.count)
        return replace(lease, epoch=self.task.epoch, producer=producer, drain=self.task.is_ending)

    def _handed_out(self, task: AssignedSourceTask) -> None:
        if self.unused:
            assert self.producer == self.world.target.epoch, "granted with a producer that was fenced"
        self.unused, task.used = False, True

    # -- the lanes

    def start(self, lane: int, *, answers: bool) -> None:
        """A lane requests its lease. ``answers``: the coordinator does, so that the run that it replaces is fenced."""
        started = {one.lane: one.token for one in self.board.engine_orders(self.now).lanes}
        if lane in self.processes or lane not in started:
            return
        session = self.board.grant(lane, LeaseRequest(token=started[lane], nonce="one"), self.now)
        task = self.task
        if task is not None and KEY in self.board.source_tasks_of(lane):
            if not self.unused:
                if not task.is_ending:
                    task.enter(SourceTaskState.FENCING, self.now, "fencing")
                self.acquiring = True
                if not answers:
                    return  # the lane repeats its request
                self.acquired()
            self.board.put(self._lease())
            self._handed_out(task)
            if not task.is_ending:
                task.enter(SourceTaskState.LEASED, self.now, "handed out")
        self.processes[lane] = Process(session)
        self.apply(lane)

    def apply(self, lane: int) -> None:
        """A lane's process receives its newest orders and carries them out."""
        process = self.processes.get(lane)
        if process is None:
            return
        orders = self.board.lane_orders(lane)
        process.version = orders.version
        lease = next((one for one in orders.source_tasks if (one.flow, one.source_task) == KEY), None)
        if lease is None:
            process.writes_with = process.run = None
        elif lease.drain:
            if not process.is_stuck:
                process.writes_with, process.drained = None, process.run is not None
        elif process.run != (lease.epoch, lease.restart):
            assert lease.producer is not None
            epoch = lease.producer.epoch
            process.run, process.drained = (lease.epoch, lease.restart), False
            process.has_failed = epoch < self.world.target.epoch  # it was fenced since the lease was granted
            process.writes_with = None if process.has_failed else epoch
            self.world.check_new_run(epoch, (self, lane, process.session, *process.run))

    def report(self, lane: int) -> None:
        process = self.processes.get(lane)
        if process is None:
            return
        state = TaskState.FAILED if process.has_failed else TaskState.RUNNING
        tasks: tuple[SourceTaskProgress, ...] = ()
        if process.run is not None:
            epoch = process.run[0]
            tasks = (SourceTaskProgress(flow=FLOW, source_task=0, epoch=epoch, state=state, drained=process.drained),)
        progress = LaneProgress(version=process.version, pid=1, source_tasks=tasks)
        self.board.lane_report(lane, process.session, progress, self.now)

    def fail(self, lane: int) -> None:
        process = self.processes.get(lane)
        if process is not None and process.writes_with is not None:
            process.has_failed, process.writes_with = True, None

    def stick(self) -> None:
        for process in self.writers:
            process.is_stuck = True

    def progress(self) -> None:
        """Let everything happen once."""
        self.tick()
        self.acquired()
        for lane in range(LANES):
            self.start(lane, answers=True)
            self.apply(lane)
            self.report(lane)

    def die(self, lane: int) -> None:
        """A lane's process dies, and Spark reports it."""
        if self.processes.pop(lane, None) is not None:
            tokens = {one.lane: one.token for one in self.board.engine_orders(self.now).lanes}
            end = LaneEnd(lane=lane, token=tokens[lane], error="killed")
            self.board.engine_report(EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None, ended=(end,)), self.now)


class World:
    """Two nodes, one source task, and a leader that assigns it to one node at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.now = 0.0
        self.epochs = itertools.count(1)
        self.target = Target()
        self.listed: int | None = None
        self.leader_fences = False
        self.owner: int | None = None
        self.nodes = [Node(self), Node(self)]

    def assign(self, number: int) -> None:
        """Assign the source task, unless another node owns it or holds it as a member (`rebalance`, A)."""
        others = [one for one in self.nodes if one is not self.nodes[number] and one.task is not None]
        if self.owner is None and all(one.task.state is SourceTaskState.ABANDONED for one in others if one.task):
            self.owner = number
            self.nodes[number].assign()

    def revoke(self) -> None:
        if self.owner is not None:
            self.nodes[self.owner].drain()
            self.owner = None

    def lose_membership(self, number: int) -> None:
        self.nodes[number].lose_membership()
        if self.owner == number:
            self.owner = None

    def store_releases(self) -> None:
        for node in self.nodes:
            if node.task is not None and node.task.release is not None and not node.task.release.done():
                node.task.release.set_result(0)

    # -- checks

    def check_new_run(self, epoch: int, run: object) -> None:
        assert self.target.used_by.setdefault(epoch, run) == run, "granted with a producer of another run"

    def check(self) -> None:
        assert len([one for node in self.nodes for one in node.writers]) <= 1, "two lanes write"
        for node in self.nodes:
            lanes = [lane for lane in range(LANES) if KEY in node.board.source_tasks_of(lane)]
            assert len(lanes) <= 1, "in the orders of two lanes"
            if node.task is None:
                assert not node.writers, "released while a lane writes"

    def settle(self) -> None:
        """Let everything happen that the nodes wait for."""
        self.leader_fences = False
        for _ in range(60):
            self.now += 1.0
            for node in self.nodes:
                node.progress()
            self.store_releases()
            self.check()
