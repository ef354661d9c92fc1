"""The parts of a flow's status: members, tasks, topics and the assignment audit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from mm2.config.reload.change_lines import disagreement
from mm2.config.reload.fingerprint import differ, differing
from mm2.config.settings import FlowSettings
from mm2.core.assignment.assignment_audit import AssignmentAudit, assignment_audit
from mm2.core.assignment.task_placement import TaskAssignments, TaskPlacement
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.core.coordination.config_fingerprint import ConfigFingerprint
from mm2.core.lanes.partition_steps import RecentWaits
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.plugins import PluginError
from mm2.core.wire.status_records import ConnectState, task_key
from mm2.election.protocol import Joined, MemberInfo
from mm2.node.flow.task_host import TaskHost
from mm2.node.flow.task_runner import STARTING
from mm2.node.leader.leader_term import LeaderTerm
from mm2.node.status.partition_ownership import PartitionOwnership
from mm2.node.status.progress import FlowProgress, ReplicatedTopic
from mm2.node.status.status_model import (
    AssignmentAuditStatus,
    DeletedTopicStatus,
    MemberStatus,
    TaskStatus,
    TopicStatus,
)
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.status_store import StatusStore

MOVES_WITHIN_S = 30.0
"""Time for a checkpoint or heartbeat task to move: two rebalances and its start take a few seconds. After that, a flow
in which it does not run is not shown as RUNNING."""


@dataclass(frozen=True, kw_only=True)
class StatusBuilder:
    """Builds the parts of one status of a flow while this node is a member of the flow's group.

    ``host`` runs the tasks of this node. ``leading`` is the leader term if this node is the leader. ``terms`` is the
    fingerprint of this node's file. ``moved_at``: as in `mm2.node.flow.retained_state`.
    """

    settings: FlowSettings
    node_id: str
    joined: Joined
    placement: TaskAssignments
    configs: ConfigStore
    statuses: StatusStore
    host: TaskHost
    leading: LeaderTerm | None
    progress: FlowProgress
    terms: ConfigFingerprint | None
    moved_at: Mapping[TaskId, float] = field(default_factory=dict)

    def members(self) -> tuple[MemberStatus, ...]:
        """Return the nodes of the flow, according to the last rebalance."""
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
        """Return the tasks of this node; on the leader, also the tasks of other nodes and unassigned tasks."""
        own = tuple(map(self._own_task, self.host.tasks()))
        if self.leading is None:
            return own
        shown = {task.id for task in own}
        others = [self._task(task) for task in sorted(self.placement.places) if str(task) not in shown]
        return (*own, *others)

    def _own_task(self, status: TaskStatus) -> TaskStatus:
        """Return the status of a task of this node, which possibly has not started since it came from another node."""
        task = TaskId.parse(status.id)
        if status.state is TaskState.WAITING and status.error == STARTING and self._moves_now(task):
            return replace(status, only_moves=True)
        return status

    def _moves_now(self, task: TaskId) -> bool:
        """Return whether it is the reason why the task does not run, and no records wait for it."""
        moved_at = self.moved_at.get(task)
        return task.kind != TaskKind.SOURCE and moved_at is not None and time.monotonic() - moved_at < MOVES_WITHIN_S

    def _task(self, task: TaskId) -> TaskStatus:
        place = self.placement.places[task]
        entry = self.statuses.entry(task_key(str(task)))
        status = entry.status if entry is not None else None
        known = status is not None and status.worker_id.endswith(f"/{place.node}")
        given = place.owner is not None and place.next is None and place.node != self.node_id
        return TaskStatus(
            id=str(task),
            kind=task.label,
            node=place.node if place.owner is not None else "",
            state=_STATES.get(status.state, TaskState.WAITING) if status and known and given else TaskState.WAITING,
            error=status.trace if status and known and given else self._move(place),
            only_moves=not (known and given) and place.owner is not None and self._moves_now(task),
        )

    def _move(self, place: TaskPlacement) -> str | None:
        """Return what a task waits for that another node has to release; None for any other task."""
        if place.next is None:
            return None
        following = self.joined.members.get(place.next)
        then = "ends" if following is None else f"moves to node {following.node_id}"
        return f"{then} as soon as node {place.node} has released it"

    def topics(self) -> tuple[TopicStatus, ...]:
        """Return the topics and partitions of this node; on the leader, all replicated topics."""
        listed = self._listed()
        if listed is not None:
            topics = self.progress.topics(listed, self._ownership)
            return topics if self.leading is None else self.leading.with_map_extents(topics)
        return self.progress.share(self._ownership, self._remote_name, self._query_name)

    def elsewhere(self) -> tuple[TopicStatus, ...]:
        """Return all listed partitions that `topics` leaves out, without progress.

        They are needed while the leader does not answer: its partitions exist, though how far they are is unknown.
        """
        if self._listed() is not None:
            return ()
        return self.progress.elsewhere(self._ownership, self._remote_name, self._query_name)

    def last_minute(self) -> RecentWaits | None:
        """Return what the partitions of this node waited for during the last minute; None: unknown."""
        return self.progress.last_minute(self._ownership)

    def _listed(self) -> tuple[ReplicatedTopic, ...] | None:
        """Return the topics that this leader lists; None on other nodes, and until the leader has read the topics:
        until then the lists of the leader before it count."""
        if self.leading is None:
            return None
        topics = self.leading.topics
        return topics if topics or not self.configs.source_tasks.records else None

    def _remote_name(self, topic: str) -> str:
        """Return the name of the remote topic; that of the source topic if the user's policy fails.

        The source task that needs the name reports the error.
        """
        try:
            return self.settings.policy.format_remote_topic(self.settings.aliases.source, topic)
        except PluginError:
            return topic

    def _query_name(self, topic: str) -> str | None:
        """Return the name of the query for a source topic; None, too, if the user's policy fails."""
        try:
            query = self.settings.query_of(topic)
        except PluginError:
            return None
        return None if query is None else query.name

    @cached_property
    def _ownership(self) -> PartitionOwnership:
        return PartitionOwnership(
            node_id=self.node_id,
            placement=self.placement,
            lists=tuple(self.configs.source_tasks.records.values()),
            confirmed=frozenset(filter(self._confirmed, self.configs.source_tasks.records)),
            hosted=self.host.hosted,
            pauses=self.configs.pauses,
        )

    def _confirmed(self, source_task: int) -> bool:
        """Return whether another node that owns the source task has reported that it runs the newest list."""
        place = self.placement.places.get(TaskId(TaskKind.SOURCE, source_task))
        elsewhere = place is not None and place.node != self.node_id
        return elsewhere and self.leading is not None and self.leading.confirmed(source_task)

    # -- assignment audit

    def assignment_audit(self, tasks: Iterable[TaskId]) -> Mapping[str, AssignmentAuditStatus]:
        """Audit the assignment of the flow's ``tasks`` and of its partitions; empty if this node is not the leader."""
        if self.leading is None:
            return {}
        given = {member: set(held_tasks(info)) for member, info in self.joined.members.items()}
        for task, place in self.placement.places.items():
            if place.owner in given:
                given[place.owner].add(task)
        found = assignment_audit(tasks, given, moving=self.placement.moving)
        return {"tasks": _counted(found), "partitions": _counted(self.leading.assignment_audit())}

    # -- selection and files

    def left_selection(self) -> tuple[str, ...] | None:
        """Return the topics that left the selection; None: unknown, or this node is not the leader."""
        return None if self.leading is None else self.leading.left_selection

    def deleted_topics(self) -> tuple[DeletedTopicStatus, ...] | None:
        """Return the topics that were deleted on the source; None: unknown, or this node is not the leader."""
        deletions = None if self.leading is None else self.leading.deleted_topics
        if deletions is None:
            return None
        return tuple(
            DeletedTopicStatus(
                topic=topic, remote_topic=self._remote_name(topic), since=one.since_ms, noticed=one.noticed_ms
            )
            for topic, one in sorted(deletions.items())
        )

    def config_differs(self) -> bool | None:
        """Return whether this node's settings of the flow differ from the leader's, on the leader whether those of any
        other node do. None: unknown, such as while a node of another release computes its digest differently."""
        leader = self.joined.members.get(self.joined.leader_id)
        if self.terms is None or leader is None:
            return None
        mine = self.terms.digest
        if self.joined.is_leader:
            others = [info.terms for member, info in self.joined.members.items() if member != self.joined.member_id]
        else:
            published = self.configs.terms
            is_leaders = published is not None and published.node == leader.node_id
            others = [published.digest if published is not None and is_leaders else leader.terms]
        if any(one and differ(mine, one) for one in others):
            return True
        return None if any(one != mine for one in others) else False

    # -- warnings

    def about_files(self) -> list[str]:
        """Return warnings about configuration files that differ from the leader's.

        Of other nodes only the digest is known, from the last rebalance, so the differing keys are not listed.
        """
        leader = self.joined.members.get(self.joined.leader_id)
        if self.terms is None or leader is None:
            return []
        mine = self.terms.digest
        if self.joined.is_leader:
            others = [info.node_id for info in self.joined.members.values() if info.terms and differ(mine, info.terms)]
            return [disagreement(leader=self.node_id, others=others)] if others else []
        published = self.configs.terms
        if published is not None and published.node == leader.node_id:
            if not differ(mine, published.digest):
                return []
            keys = differing(self.terms.terms, published.terms)
            return [disagreement(leader=leader.node_id, others=(self.node_id,), keys=keys)]
        if not leader.terms or not differ(mine, leader.terms):
            return []
        return [disagreement(leader=leader.node_id, others=(self.node_id,))]


def held_tasks(info: MemberInfo) -> frozenset[TaskId]:
    """Return the tasks that a member is possibly running, including kinds that are unknown to this release."""
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


def _counted(found: AssignmentAudit[TaskId] | AssignmentAudit[TopicPartition]) -> AssignmentAuditStatus:
    return AssignmentAuditStatus(
        assigned=found.assigned,
        moving=len(found.moving),
        unassigned=len(found.unassigned),
        duplicated=len(found.duplicated),
        unexpected=len(found.unexpected),
    )
