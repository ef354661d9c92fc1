"""One flow as its node shows it, put together from what its parts know."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mm2.config.agreement import differ, differing
from mm2.config.change_lines import disagreement
from mm2.config.settings import FlowSettings
from mm2.core.coverage import Coverage, coverage
from mm2.core.flow_terms import FlowTerms
from mm2.core.lease import TaskState
from mm2.core.names import TopicPartition
from mm2.core.placement import Placement
from mm2.core.status_records import ConnectState
from mm2.core.tasks import TaskId, TaskKind
from mm2.election.protocol import Joined, MemberInfo
from mm2.node.config_topic import ConfigTopic
from mm2.node.leadership import Leadership
from mm2.node.progress import FlowProgress
from mm2.node.published import CoverageStatus, MemberStatus, TaskStatus, TopicStatus
from mm2.node.status_book import StatusBook
from mm2.node.task_host import TaskHost
from mm2.node.whereabouts import Whereabouts


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPicture:
    """The parts of a flow that is a member of its group: ``host`` runs its tasks here, ``leading`` is there where this
    node leads. ``terms``: what this node's file says of the flow."""

    settings: FlowSettings
    node_id: str
    joined: Joined
    placement: Placement
    configs: ConfigTopic
    book: StatusBook
    host: TaskHost
    leading: Leadership | None
    progress: FlowProgress
    terms: FlowTerms | None

    def members(self) -> tuple[MemberStatus, ...]:
        """The nodes of the flow, as of the last round."""
        return tuple(
            MemberStatus(
                node=info.node_id,
                url=info.url,
                leads=member_id == self.joined.leader_id,
                capacity=info.capacity,
                tasks=tuple(str(task) for task in self.placement.run(member_id)),
                version=info.version,
                terms=info.terms,
            )
            for member_id, info in sorted(self.joined.members.items(), key=lambda one: (one[1].node_id, one[0]))
        )

    def tasks(self) -> tuple[TaskStatus, ...]:
        """The tasks of this node; where it leads, those of others and of nobody too."""
        own = self.host.tasks()
        if self.leading is None:
            return own
        shown = {task.id for task in own}
        others = [self._task(task) for task in sorted(self.placement.places) if str(task) not in shown]
        return (*own, *others)

    def _task(self, task: TaskId) -> TaskStatus:
        place = self.placement.places[task]
        told = self.book.tasks().get(str(task))
        known = told is not None and told.worker_id.endswith(f"/{place.node}")
        given = place.owner is not None and place.next is None and place.node != self.node_id
        return TaskStatus(
            id=str(task),
            kind=task.kind.word,
            node=place.node if place.owner is not None else "",
            state=_STATES.get(told.state, TaskState.WAITING) if told and known and given else TaskState.WAITING,
            error=told.trace if told and known and given else None,
        )

    def topics(self) -> tuple[TopicStatus, ...]:
        """The partitions of this node; where it leads, every replicated topic."""
        whereabouts = self._whereabouts()
        if self.leading is not None:
            return self.progress.topics(self.leading.topics, whereabouts)
        policy, source = self.settings.policy, self.settings.flow.source
        return self.progress.share(whereabouts, lambda topic: policy.format_remote_topic(source, topic))

    def _whereabouts(self) -> Whereabouts:
        return Whereabouts(
            node_id=self.node_id,
            placement=self.placement,
            lists=tuple(self.configs.slots.records.values()),
            confirmed=frozenset(filter(self._confirmed, self.configs.slots.records)),
            hosted=self.host.hosted,
            pauses=self.configs.pauses,
        )

    def _confirmed(self, slot: int) -> bool:
        """Whether another node, which was given the slot, has taken its list in."""
        place = self.placement.places.get(TaskId(TaskKind.SOURCE, slot))
        elsewhere = place is not None and place.node != self.node_id
        return elsewhere and self.leading is not None and self.leading.confirmed(slot)

    # -- coverage

    def coverage(self, tasks: Iterable[TaskId]) -> Mapping[str, CoverageStatus]:
        """Whether all is run once: the flow's ``tasks``, and its partitions. Empty where this node does not lead."""
        if self.leading is None:
            return {}
        given = {member: set(held_tasks(info)) for member, info in self.joined.members.items()}
        for task, place in self.placement.places.items():
            if place.owner in given:
                given[place.owner].add(task)
        found = coverage(tasks, given, moving=self.placement.moving)
        return {"tasks": _counted(found), "partitions": _counted(self.leading.coverage())}

    # -- what is to be known about nodes

    def about_files(self) -> list[str]:
        """Files that say something else than the leader's. Of others than this node it is known what they said in the
        last round, and not which keys it is."""
        leader = self.joined.members.get(self.joined.leader_id)
        if self.terms is None or leader is None:
            return []
        flow, mine = self.settings.flow, self.terms.digest
        if self.joined.is_leader:
            others = [info.node_id for info in self.joined.members.values() if info.terms and differ(mine, info.terms)]
            return [disagreement(flow, leader=self.node_id, others=others)] if others else []
        published = self.configs.terms
        if published is not None and published.node == leader.node_id:
            if not differ(mine, published.digest):
                return []
            keys = differing(self.terms.terms, published.terms)
            return [disagreement(flow, leader=leader.node_id, others=(self.node_id,), keys=keys)]
        if not leader.terms or not differ(mine, leader.terms):
            return []
        return [disagreement(flow, leader=leader.node_id, others=(self.node_id,))]


def held_tasks(info: MemberInfo) -> frozenset[TaskId]:
    """The tasks a member says it may be running; texts of a later release are left out."""
    found = set()
    for text in info.tasks:
        with contextlib.suppress(ValueError):
            found.add(TaskId.parse(text))
    return frozenset(found)


_STATES = {
    ConnectState.RUNNING: TaskState.RUNNING,
    ConnectState.PAUSED: TaskState.PAUSED,
    ConnectState.FAILED: TaskState.FAILED,
}


def _counted(found: Coverage[TaskId] | Coverage[TopicPartition]) -> CoverageStatus:
    return CoverageStatus(
        covered=found.covered,
        moving=len(found.moving),
        uncovered=len(found.uncovered),
        doubled=len(found.doubled),
        stray=len(found.stray),
    )
