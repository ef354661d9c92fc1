"""The tasks of one flow that this node runs, as the leader answered: source slots, checkpoints, heartbeats.

A task that is taken away ends, stores what it has to, and is let go; only then may another node be given it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial

from mm2.config.settings import FlowSettings
from mm2.core.assignment import WEIGHT
from mm2.core.group_lists import FIRST, GroupListBook
from mm2.core.holdings import Holdings
from mm2.core.lease import TaskState
from mm2.core.pauses import Pauses
from mm2.core.placement import Placement
from mm2.core.tasks import TaskId, TaskKind
from mm2.node.checkpoint_tally import CheckpointTally
from mm2.node.published import GroupStatus, TaskStatus
from mm2.node.slot_host import SlotHost
from mm2.node.tasks.checkpoint import CheckpointTask, reason_for_none
from mm2.node.tasks.heartbeat import HeartbeatTask
from mm2.node.whereabouts import HostedSlot

log = logging.getLogger(__name__)

AGAIN_AFTER_S = 5.0
"""A task that ends with an error cannot be helped by trying at once; somebody may be repairing what it is."""

_NOT_ENABLED = "the leader gave this node a slot to copy, but the flow is not enabled in this node's file"

CHECKPOINTS = TaskId(TaskKind.CHECKPOINT, FIRST)
"""Also what runs on a node for all its checkpoint tasks together, whatever their numbers."""

HEARTBEATS = TaskId(TaskKind.HEARTBEAT, 0)


def lasting_tasks(settings: FlowSettings, groups: Mapping[int, int]) -> dict[TaskId, int]:
    """The tasks a flow has besides its slots, with weights: heartbeats also where it is not enabled, checkpoints only
    where offset syncs are written (mm2-compat §1.3). ``groups``: how many each checkpoint task has; the first one is
    there without any, too."""
    found = {}
    if reason_for_none(settings) is None:
        counts = {FIRST: 0} | dict(groups)
        found = {TaskId(TaskKind.CHECKPOINT, number): WEIGHT + count for number, count in counts.items()}
    if settings.heartbeats:
        found[HEARTBEATS] = 1
    return found


class TaskHost:
    """Invariants: (A) a task runs only while it is held (`Holdings`). (B) What goes wrong in one task ends no other."""

    def __init__(
        self,
        settings: FlowSettings,
        *,
        slots: SlotHost | None,
        groups: GroupListBook,
        offsets_partitions: int,
        node_id: str,
        tally: CheckpointTally,
        changed: Callable[[], None],
    ) -> None:
        """``slots`` None: the flow is not enabled. ``groups``: what the leader published; `regroup` says when it is
        something else. ``changed`` is called when a task was let go."""
        self._settings = settings
        self._slots = slots
        self._groups = groups
        self._regrouping: asyncio.Handle | None = None
        self._regrouped: tuple[int, frozenset[int]] | None = None
        self._offsets_partitions = offsets_partitions
        self._node_id = node_id
        self._tally = tally
        self._changed = changed
        self._holdings = Holdings()
        self._since: Mapping[TaskId, int] = {}
        self._running: dict[TaskId, asyncio.Task[None]] = {}
        self._checkpoint: CheckpointTask | None = None
        self._heartbeat: HeartbeatTask | None = None
        self._emitted = 0
        self._paused = False
        self._closed = False
        self._failures: dict[TaskId, str] = {}

    def take_over(self, settings: FlowSettings) -> None:
        """Go on with other settings. Slots go on copying; checkpoints and heartbeats begin anew within moments."""
        self._settings = settings
        if self._slots is not None:
            self._slots.take_over(settings)
        self._failures.clear()
        for task in self._running:
            self.restart(task)
        self._bring_lasting()

    # -- what the election says

    @property
    def epoch(self) -> int:
        """The newest answer taken in."""
        return self._holdings.epoch

    @property
    def holds(self) -> frozenset[TaskId]:
        """Every task that may be running here."""
        return self._holdings.holds

    def take(self, placement: Placement, member_id: str) -> None:
        """The leader's answer. Old ones change nothing."""
        if not self._holdings.take(placement.epoch, placement.run(member_id)):
            return
        self._since = {task: place.since for task, place in placement.places.items() if place.owner == member_id}
        self._bring(member_id)

    def lost(self) -> None:
        """The node is no member any more: everything ends."""
        self._holdings.lost()
        self._bring("")

    def pause(self, pauses: Pauses) -> None:
        """Checkpoints of a flow that is paused as a whole wait (`Pauses.flow`)."""
        if pauses.flow != self._paused:
            self._paused = pauses.flow
            self._bring_lasting()

    def regroup(self) -> None:
        """The lists of groups may have changed. What changed together is in the topic together, and counts together."""
        if self._regrouping is None:
            self._regrouping = asyncio.get_running_loop().call_soon(self._regroup)

    def restart(self, task: TaskId) -> bool:
        """Begin a task anew, of checkpoint tasks all that run here. False when it does not run here."""
        if task.kind is TaskKind.SOURCE:
            return self._slots is not None and self._slots.restart(task.number)
        run = _run_of(task)
        if run not in self._running:
            return False
        self._running[run].cancel()  # `_ended` begins it anew, since it is still wanted
        return True

    def look_now(self) -> None:
        """Look for consumer groups now, if their task runs here."""
        if self._checkpoint is not None:
            self._checkpoint.look_now()

    def slot_let_go(self, slot: int) -> None:
        """A slot has ended and stored its offsets."""
        self._let_go(TaskId(TaskKind.SOURCE, slot))

    # -- the node's own end

    def freeze(self) -> None:
        """The node is being drained as a whole: change nothing any more."""
        if self._slots is not None:
            self._slots.freeze()
        if self._checkpoint is not None:
            self._checkpoint.drain()

    async def close(self, *, slots: bool = True) -> None:
        """End everything at once; without ``slots`` these are left to the lanes, which drain them."""
        if self._slots is not None and slots:
            self._slots.close()
        self._closed = True
        running, self._running = list(self._running.values()), {}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    # -- inside

    def _bring(self, member_id: str) -> None:
        if self._slots is not None:
            wanted = [task for task in self._holdings.run if task.kind is TaskKind.SOURCE]
            self._slots.run_slots({task.number: self._since.get(task, 0) for task in wanted}, member_id)
        held_slots = {task.number for task in self._holdings.holds if task.kind is TaskKind.SOURCE}
        for slot in held_slots - set(self._slots.slots if self._slots is not None else ()):
            self._let_go(TaskId(TaskKind.SOURCE, slot))
        self._bring_lasting()

    def _wanted(self) -> set[TaskId]:
        """What should be running now besides slots."""
        wanted = {_run_of(task) for task in self._holdings.run if task.kind is not TaskKind.SOURCE}
        return wanted - {CHECKPOINTS} if self._paused else wanted

    def _bring_lasting(self) -> None:
        """Start and end checkpoints and heartbeats."""
        self._regroup()
        wanted = self._wanted()
        for task in wanted - self._running.keys() - self._failures.keys():
            self._start(task)
        for task in [one for one in self._running if one not in wanted]:
            self._running[task].cancel()
        for task in [one for one in self._holdings.drain if one.kind is not TaskKind.SOURCE]:
            if _run_of(task) not in self._running or (task.kind is TaskKind.CHECKPOINT and CHECKPOINTS in wanted):
                self._let_go(task)  # nothing runs for it, or what runs for others has heard that it went

    def _regroup(self) -> None:
        """Have the checkpoints' task know its groups."""
        if self._regrouping is not None:
            self._regrouping.cancel()
            self._regrouping = None
        known = self._groups.revision, self._checkpoint_numbers()
        if self._checkpoint is not None and known != self._regrouped:
            self._regrouped = known
            self._checkpoint.take(self._groups.share(self._checkpoint_numbers()))

    def _checkpoint_numbers(self) -> frozenset[int]:
        return frozenset(task.number for task in self._holdings.run if task.kind is TaskKind.CHECKPOINT)

    def _start(self, task: TaskId) -> None:
        work = self._work_of(task)
        if work is None:
            return  # the leader's file says otherwise than this node's, which is told of by `terms`
        running = asyncio.create_task(work(), name=f"{self._settings.flow} {task}")
        self._running[task] = running
        running.add_done_callback(partial(self._ended, task))

    def _work_of(self, task: TaskId) -> Callable[[], Coroutine[None, None, None]] | None:
        partitions, node = self._offsets_partitions, self._node_id
        if task == CHECKPOINTS and reason_for_none(self._settings) is None:
            self._checkpoint = CheckpointTask(
                self._settings,
                offsets_partitions=partitions,
                node_id=node,
                tally=self._tally,
                share=self._groups.share(self._checkpoint_numbers()),
            )
            return self._checkpoint.run
        if task == HEARTBEATS and self._settings.heartbeats:
            self._heartbeat = HeartbeatTask(self._settings, offsets_partitions=partitions, node_id=node)
            return self._heartbeat.run
        return None

    def _ended(self, task: TaskId, done: asyncio.Task[None]) -> None:
        if self._running.get(task) is not done:
            return  # the node closes
        del self._running[task]
        if task == CHECKPOINTS:
            self._checkpoint = None
        if task == HEARTBEATS and self._heartbeat is not None:
            self._emitted += self._heartbeat.emitted
            self._heartbeat = None
        error = None if done.cancelled() else done.exception()
        if error is not None:
            log.error("%s: %s ends, and is tried again in %g s: %s", self._settings.flow, task, AGAIN_AFTER_S, error)
            self._failures[task] = str(error)
            asyncio.get_running_loop().call_later(AGAIN_AFTER_S, self._try_again, task)
        self._bring_lasting()

    def _try_again(self, task: TaskId) -> None:
        self._failures.pop(task, None)
        if not self._closed:
            self._bring_lasting()

    def _let_go(self, task: TaskId) -> None:
        if self._holdings.let_go(task):
            self._changed()

    # -- what is shown

    @property
    def emitted(self) -> int:
        """Heartbeats written."""
        return self._emitted + (self._heartbeat.emitted if self._heartbeat is not None else 0)

    @property
    def groups(self) -> Iterable[GroupStatus]:
        """The source's consumer groups, where their task runs here."""
        return self._checkpoint.groups() if self._checkpoint is not None else ()

    @property
    def group_reasons(self) -> tuple[str, ...] | None:
        """Why there are none, or why they are not quite what they should be; None: their task does not run here."""
        return self._checkpoint.group_reasons if self._checkpoint is not None else None

    @property
    def hosted(self) -> tuple[HostedSlot, ...]:
        """The slots of this node that have begun."""
        return self._slots.hosted() if self._slots is not None else ()

    def topic_uses(self) -> Iterator[tuple[str, str, int]]:
        """The topics that tasks of this node have written to, each with the connector and the task's number."""
        if self._slots is not None:
            yield from ((topic, str(TaskKind.SOURCE), slot) for topic, slot in self._slots.written())
        if self._checkpoint is not None and self._tally.latency_by_group:
            topic = self._settings.policy.checkpoints_topic(self._settings.flow.source)
            yield from ((topic, str(one.kind), one.number) for one in self._served_by(CHECKPOINTS)[:1])
        if self._heartbeat is not None and self._heartbeat.emitted:
            yield self._settings.policy.heartbeats_topic(), str(TaskKind.HEARTBEAT), 0

    def tasks(self) -> tuple[TaskStatus, ...]:
        """The tasks of this node, those that copy first."""
        lasting = []
        if self._checkpoint is not None:
            lasting += [self._checkpoint.status(task.number) for task in self._served_by(CHECKPOINTS)]
        if self._heartbeat is not None:
            lasting.append(self._heartbeat.status())
        if self._slots is None:
            given = sorted(task for task in self._holdings.run if task.kind is TaskKind.SOURCE)
            lasting += [self._shown(task, TaskState.FAILED, _NOT_ENABLED) for task in given]
        for run, error in self._failures.items():
            lasting += [self._shown(task, TaskState.FAILED, error) for task in self._served_by(run)]
        if self._paused and self._checkpoint is None:
            paused = [task for task in self._served_by(CHECKPOINTS) if task in self._holdings.run]
            lasting += [self._shown(task, TaskState.PAUSED, None) for task in paused]
        return (*(self._slots.tasks() if self._slots is not None else ()), *lasting)

    def _served_by(self, run: TaskId) -> list[TaskId]:
        """The tasks of this node that ``run`` does the work of."""
        return sorted(task for task in self._holdings.holds if _run_of(task) == run)

    def _shown(self, task: TaskId, state: TaskState, error: str | None) -> TaskStatus:
        kind = task.kind.word
        return TaskStatus(id=str(task), kind=kind, node=self._node_id, state=state, error=error)

    def reasons(self) -> list[str]:
        """One sentence for each thing that keeps the tasks from their work, or that a person should know."""
        found: list[str] = []
        if self._slots is not None:
            found += [] if self._slots.trouble is None else [self._slots.trouble]
            found += self._slots.warnings
        if self._checkpoint is not None:
            found += [] if self._checkpoint.trouble is None else [self._checkpoint.trouble]
            found += self._checkpoint.warnings
        if self._heartbeat is not None and self._heartbeat.trouble is not None:
            found.append(self._heartbeat.trouble)
        return found


def _run_of(task: TaskId) -> TaskId:
    """What runs for it."""
    return CHECKPOINTS if task.kind is TaskKind.CHECKPOINT else task
