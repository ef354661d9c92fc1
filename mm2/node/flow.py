"""One flow on one node, for as long as the node lives: one life after the other, and what is shown of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping

from mm2.config.settings import FlowSettings
from mm2.core.commands import Command, CommandRefusedError
from mm2.core.lease import TaskState
from mm2.core.plugins import PluginError
from mm2.core.standing import Standing
from mm2.core.task_states import worst
from mm2.core.tasks import TaskKind
from mm2.election.protocol import HeldByOther, Lost
from mm2.kafka.backoff import Backoff
from mm2.kafka.errors import ClusterError, first_error
from mm2.kafka.internal_topics import WrongInternalTopic
from mm2.node.commands import carry_out
from mm2.node.desk import Desk
from mm2.node.flow_life import FlowLife
from mm2.node.flow_memory import FlowMemory
from mm2.node.flow_picture import FlowPicture
from mm2.node.node_identity import NodeIdentity
from mm2.node.published import FlowStatus, TaskStatus, TopicStatus
from mm2.node.tasks.checkpoint import reason_for_none
from mm2.node.twins import Twins

log = logging.getLogger(__name__)

LEAVING_SHARE = 0.7
"""Of the time to drain: for handing tasks to other nodes, one after the other. What they do not take in time is drained
in the rest."""

RETRY_FIRST_MS = 1_000
RETRY_LONGEST_MS = 10_000
"""A target that is away is asked again after one second, then more rarely: each try is a connection, no more, and
somebody may be waiting for it to come back."""

ROUND_S = 5.0
"""From the end of a session until all have heard of the round without its member, on a busy machine."""


class FlowRunner:
    """Invariant (A): nothing that goes wrong in one flow ends another, or the node."""

    def __init__(self, settings: FlowSettings, identity: NodeIdentity, desk: Desk) -> None:
        self.settings = settings
        self._identity = identity
        self._desk = desk
        self._memory = FlowMemory()
        self._life: FlowLife | None = None
        self._trouble: str | None = "connecting"
        self._broken = False
        self._leaving = False
        self._draining = False
        self._commanding = asyncio.Lock()
        self._twins = Twins()

    async def run(self) -> None:
        """Serve the flow until cancelled, through everything that can be waited out."""
        backoff = Backoff(RETRY_FIRST_MS, RETRY_LONGEST_MS)
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await self._live()
            except* (ClusterError, PluginError) as group:
                error = first_error(group)
                self._note(str(error), broken=isinstance(error, WrongInternalTopic | PluginError))
            except* Exception:
                log.exception("%s: unexpected error, the flow starts again", self.settings.flow)
                self._note("an unexpected error, see the log; the flow is started again", broken=True)
            if asyncio.get_running_loop().time() - began > RETRY_LONGEST_MS / 1000:
                backoff.reset()
            await asyncio.sleep(backoff.next())

    async def _live(self) -> None:
        life = FlowLife(self.settings, self._identity, self._desk, self._memory, leaving=self._leaving)
        async with life.connected():
            self._life, self._trouble, self._broken = life, None, False
            if life.settings is not self.settings:
                life.take_over(self.settings)
            try:
                await life.run()
            finally:
                self._life = None
                self._memory.heartbeats += life.host.emitted
                await life.host.close(slots=not self._draining)

    def _note(self, sentence: str, *, broken: bool = False) -> None:
        if sentence != self._trouble:
            log.warning("%s: %s", self.settings.flow, sentence)
        self._trouble, self._broken = sentence, broken

    # -- another file

    def take_over(self, settings: FlowSettings) -> None:
        """Go on with other settings, of which none reaches deeper than `Reach.RUNNING`."""
        self.settings = settings
        if self._life is not None:
            self._life.take_over(settings)

    def say_terms(self) -> None:
        """Tell the other nodes what this node's file says now."""
        if self._life is not None:
            self._life.say_terms()

    async def wind_up(self, why: str) -> None:
        """Before `run` is cancelled: give all tasks to other nodes, drain and store what is left. ``why`` is shown
        meanwhile. Takes task.shutdown.graceful.timeout.ms at most."""
        within = self.settings.worker.task_shutdown_graceful_timeout_ms / 1000
        began = asyncio.get_running_loop().time()
        self._trouble = why
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within * LEAVING_SHARE):
                await self.leave()
        if (life := self._life) is None:
            return
        left = within - (asyncio.get_running_loop().time() - began)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left):
                await life.let_go()

    def anew(self, settings: FlowSettings) -> None:
        """After `wind_up`, and after `run` was cancelled: it may be run again, on these settings."""
        self.settings = settings
        self._leaving = self._broken = False

    # -- the end

    async def leave(self) -> None:
        """Give all tasks to other nodes, where there are some, and return when nothing runs here. The caller bounds the
        wait."""
        self._leaving = True
        if self._life is not None:
            await self._life.leave()

    def drain(self) -> None:
        """Change nothing any more: the node is being drained."""
        self._draining = True
        if self._life is not None:
            self._life.host.freeze()

    # -- what other nodes and operators ask

    def standing(self) -> Standing:
        """Where this node stands in the flow now."""
        worker, life = self.settings.worker, self._life
        joined = life.joined if life is not None else None
        leader = joined.members.get(joined.leader_id) if joined is not None else None
        return Standing(
            flow=self.settings.flow,
            leads=life is not None and life.leadership is not None,
            leader_url=(leader.url or None) if leader is not None else None,
            own_url=self._identity.url or None,
            session_key=life.configs.session_key if life is not None else None,
            signature_algorithm=worker.inter_worker_signature_algorithm,
            accepted_algorithms=worker.inter_worker_verification_algorithms,
        )

    async def carry_out(self, command: Command) -> str:
        """Do what an operator asks of the flow, which this node leads. Raises CommandRefusedError."""
        life = self._life
        if life is None or life.leadership is None:
            raise CommandRefusedError(f"this node does not lead {self.settings.flow}")
        async with self._commanding:  # a pause is added to what is paused
            return await carry_out(command, life.leadership, life.configs, self._memory.placement)

    # -- what is shown

    def status(self) -> FlowStatus:
        """The flow as this node sees it."""
        life, memory = self._life, self._memory
        joined = life.joined if life is not None else None
        picture = self._picture()
        tasks = picture.tasks() if picture is not None else ()
        topics = picture.topics() if picture is not None else ()
        state, reasons = self._state(tasks, topics), [*self._reasons(picture, topics), *_waiting_for_spark(tasks)]
        if state is TaskState.WAITING and not reasons:
            reasons = _still_starting(tasks)
        return FlowStatus(
            flow=self.settings.flow,
            enabled=self.settings.enabled,
            state=state,
            leader=joined.leader_node if joined is not None else None,
            is_leader=life is not None and life.leadership is not None,
            epoch=joined.generation if joined is not None else -1,
            reasons=tuple(reasons),
            tasks=tasks,
            topics=topics,
            batches=memory.progress.batches,
            losses=memory.progress.losses,
            heartbeats_total=memory.heartbeats + (life.host.emitted if life is not None else 0),
            groups=life.host.groups if life is not None else (),
            group_reasons=self._group_reasons(),
            checkpoint_latency=memory.tally.latency_by_group,
            skipped=self._skipped(),
            members=picture.members() if picture is not None else (),
            paused=life.configs.pauses.named if life is not None else (),
            coverage=picture.coverage(life.tasks()) if picture is not None and life is not None else {},
        )

    def _picture(self) -> FlowPicture | None:
        life = self._life
        if life is None or life.joined is None:
            return None
        return FlowPicture(
            settings=self.settings,
            node_id=self._identity.node_id,
            joined=life.joined,
            placement=self._memory.placement,
            configs=life.configs,
            book=life.statuses.book,
            host=life.host,
            leading=life.leadership,
            progress=self._memory.progress,
            terms=self._identity.terms.get(self.settings.flow),
        )

    def _skipped(self) -> Mapping[str, int]:
        skipped = dict(self._memory.tally.skipped_by_topic)
        if self._life is not None:
            for topic in (self._life.configs, self._life.statuses):
                if topic.skipped.count:
                    skipped[topic.topic] = topic.skipped.count
        return skipped

    def _state(self, tasks: tuple[TaskStatus, ...], topics: tuple[TopicStatus, ...]) -> TaskState:
        life = self._life
        if self._broken:
            return TaskState.FAILED
        if self._draining or self._leaving:
            return TaskState.DRAINING
        if life is None or life.joined is None or self._trouble is not None:
            return TaskState.WAITING
        if life.joined.is_leader and (life.leadership is None or life.leadership.trouble is not None):
            return TaskState.WAITING
        here = ("", self._identity.node_id)  # what another node runs it tells itself; what nobody runs the leader tells
        states = [task.state for task in tasks if task.node in here]
        states += [p.state for topic in topics for p in topic.partitions if p.node in here]
        return worst([*states, *(TaskState.FAILED for topic in topics if topic.error is not None)])

    def _reasons(self, picture: FlowPicture | None, topics: tuple[TopicStatus, ...]) -> list[str]:
        reasons = [] if self._trouble is None else [self._trouble]
        reasons += self._without_membership()
        if self._life is not None:
            reasons += [one for one in (self._life.trouble, self._life.statuses.trouble) if one is not None]
            reasons += self._life.leadership.reasons() if self._life.leadership is not None else []
            reasons += self._life.host.reasons()
        if picture is not None:
            zookeeper = self.settings.zookeeper
            session_ms = (zookeeper or self.settings.worker).session_timeout_ms
            session_s = session_ms / 1000 + ROUND_S
            reasons += self._twins.named(picture.joined.members, time.monotonic(), session_s=session_s)
            reasons += picture.about_files()
        for topic in topics:
            if topic.error is not None:
                reasons.append(f"topic {topic.topic}: {topic.error}")
            reasons += [p.error for p in topic.partitions if p.state in _TELLING and p.error is not None]
        return list(dict.fromkeys(reasons))

    def _without_membership(self) -> list[str]:
        match self._life.membership if self._life is not None else None:
            case Lost(reason=reason) | HeldByOther(reason=reason):
                return [reason]
        return []

    def _group_reasons(self) -> tuple[str, ...]:
        """Why /flows/…/groups shows less than everything."""
        none = reason_for_none(self.settings)
        if none is not None:
            return (none,)
        here = self._life.host.group_reasons if self._life is not None else None
        if here is not None:
            return here
        if elsewhere := self._groups_elsewhere():
            return elsewhere
        if self._life is not None and self._life.configs.pauses.flow:
            return ("the flow is paused",)
        return tuple(self._without_membership() or ([] if self._trouble is None else [self._trouble]))

    def _groups_elsewhere(self) -> tuple[str, ...]:
        """A sentence about the other nodes that have checkpoint tasks."""
        if self._life is None or self._life.joined is None:
            return ()
        places = self._memory.placement.places.items()
        nodes = {place.node for task, place in places if task.kind is TaskKind.CHECKPOINT and place.owner is not None}
        named = sorted(nodes - {self._identity.node_id})
        if len(named) > 1:
            return (f"nodes {', '.join(named)} translate the offsets of groups; ask them",)
        return tuple(f"node {node} translates the offsets of groups; ask it" for node in named)


def _waiting_for_spark(tasks: tuple[TaskStatus, ...]) -> list[str]:
    """What keeps tasks from a lane, said once for all that share it."""
    errors = [task.error for task in tasks if task.state is TaskState.WAITING and task.error is not None]
    return list(dict.fromkeys(errors))


_TELLING = frozenset({TaskState.FAILED, TaskState.WAITING})


def _still_starting(tasks: tuple[TaskStatus, ...]) -> list[str]:
    """What a flow without any trouble waits for: lanes, or their first look at the partitions."""
    waiting = [task.id for task in tasks if task.state is TaskState.WAITING]
    if waiting:
        return [f"{', '.join(waiting)}: waiting for a lane to begin"]
    return ["waiting for partitions to begin"]
