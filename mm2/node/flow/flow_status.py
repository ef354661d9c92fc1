"""The status of one flow on one node: its state, and the reasons for it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mm2.config.settings import FlowSettings
from mm2.core.assignment.tasks import TaskKind
from mm2.core.coordination.pauses import pauses_flow
from mm2.core.coordination.repeats import Repeat
from mm2.core.lanes.losses import stop_message
from mm2.core.lanes.task_states import TaskState, without_pauses, worst
from mm2.core.naming.names import TopicPartition
from mm2.core.plugins import PluginError
from mm2.core.problems.grouped_problems import reasons as problem_reasons
from mm2.election.protocol import HeldByOther, Joined, Lost, MemberInfo
from mm2.node.checkpoint.checkpoint_task import reason_for_none
from mm2.node.flow.flow_session import FlowSession
from mm2.node.flow.retained_state import RetainedFlowState
from mm2.node.identity import NodeIdentity
from mm2.node.status.pace_limit import pace_limit
from mm2.node.status.status_builder import StatusBuilder
from mm2.node.status.status_model import CopyAgainStatus, FlowStatus, TaskStatus, TopicStatus


class DuplicateNodeIds:
    """Finds node IDs used by more than one member for longer than a session.

    A node that was killed and restarted shares its ID with its own expired member until the session timeout; that is
    not reported.
    """

    def __init__(self) -> None:
        self._since: dict[tuple[str, frozenset[str]], float] = {}  # by node ID and member ids

    def find(self, members: Mapping[str, MemberInfo], now: float, *, session_timeout_s: float) -> list[str]:
        """Return one warning per duplicated node ID. ``members`` is by member id, ``now`` is monotonic seconds."""
        members_of: dict[str, set[str]] = {}
        for member_id, info in members.items():
            members_of.setdefault(info.node_id, set()).add(member_id)
        duplicates = {(node_id, frozenset(ids)) for node_id, ids in members_of.items() if len(ids) > 1}
        self._since = {one: self._since.get(one, now) for one in duplicates}
        return [
            f"duplicate node ID {name}, used by {len(ids)} nodes: set a different mm2.node.id, or a different address"
            " (rest.advertised.*), on each node"
            for (name, ids), since in sorted(self._since.items(), key=lambda one: one[0][0])
            if now - since > session_timeout_s
        ]


ROUND_S = 5.0
"""Time between the end of a member's session and the rebalance without it on all nodes, on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStatusBuilder:
    """Builds the status of a flow from its session.

    ``own_state`` is the state of the flow if it does not depend on its tasks, else None. ``error`` is the error that
    prevents a session. ``connect_error`` is the same, if an attempt to start one has failed.
    """

    settings: FlowSettings
    identity: NodeIdentity
    retained: RetainedFlowState
    session: FlowSession | None
    own_state: TaskState | None
    error: str | None
    connect_error: str | None
    duplicate_node_ids: DuplicateNodeIds

    def build(self) -> FlowStatus:
        """Return the status of the flow on this node."""
        session, retained = self.session, self.retained
        joined = session.joined if session is not None else None
        parts, limit = self._parts(), self.settings.own.max_bytes_per_second
        tasks = parts.tasks() if parts is not None else ()
        topics = parts.topics() if parts is not None else ()
        elsewhere = parts.elsewhere() if parts is not None else ()
        paused = session.configs.pauses.named if session is not None else ()
        is_paused = pauses_flow(paused, {one.topic for one in (*topics, *elsewhere)})
        own_losses = retained.progress.losses
        state, reasons = self._state(tasks, topics, is_paused=is_paused), self._reasons(parts, tasks, topics)
        last_minute = parts.last_minute() if parts is not None else None
        if state is TaskState.WAITING and not reasons:
            reasons = [_still_starting(tasks)]
        return FlowStatus(
            flow=str(self.settings.flow),
            source=self.settings.flow.source,
            target=self.settings.flow.target,
            enabled=self.settings.enabled,
            state=state,
            leader=joined.leader_node if joined is not None else None,
            is_leader=session is not None and session.leader_term is not None,
            epoch=joined.generation if joined is not None else -1,
            reasons=tuple(reasons),
            tasks=tasks,
            topics=topics,
            elsewhere=elsewhere,
            records_total=retained.progress.records_total,
            bytes_total=retained.progress.bytes_total,
            batches=retained.progress.batches,
            losses=retained.losses.shown(own_losses.newest),
            lost=self._by_remote_topic(own_losses.totals),
            loss_counts=self._by_remote_topic(own_losses.counts),
            unaccepted_losses=retained.losses.count_unaccepted(own_losses.newest, self._remote_topic),
            heartbeats_total=retained.heartbeats,
            groups=session.host.groups if session is not None else (),
            group_reasons=self._group_reasons(),
            checkpoint_latency=retained.checkpoint_metrics.latency_by_group,
            skipped=self._skipped(),
            limited_by=pace_limit(topics, last_minute, enabled=self.settings.enabled),
            last_minute=last_minute,
            counters=retained.progress.counters,
            checkpoint_latencies=retained.checkpoint_metrics.latencies,
            members=parts.members() if parts is not None else (),
            paused=paused,
            max_bytes_per_second=limit,
            fetch_shares=None if limit is None or session is None else session.host.fetch_shares,
            paused_since=session.configs.pauses.since if session is not None else {},
            paused_by=session.configs.pauses.origins if session is not None else {},
            copying_again=tuple(map(_copy_again, session.configs.repeats.open)) if session is not None else (),
            is_member=joined is not None,
            not_member=self._without_membership() or self.connect_error,
            left_selection=parts.left_selection() if parts is not None else None,
            deleted_topics=parts.deleted_topics() if parts is not None else None,
            config_differs=parts.config_differs() if parts is not None else None,
            assignment_audit=parts.assignment_audit(session.tasks()) if parts is not None and session else {},
        )

    def _parts(self) -> StatusBuilder | None:
        session = self.session
        if session is None or session.joined is None:
            return None
        return StatusBuilder(
            settings=self.settings,
            node_id=self.identity.node_id,
            joined=session.joined,
            placement=self.retained.placement,
            moved_at=self.retained.moved_at,
            configs=session.configs,
            statuses=session.statuses,
            host=session.host,
            leading=session.leader_term,
            progress=self.retained.progress,
            terms=self.identity.terms.get(self.settings.flow),
        )

    def _skipped(self) -> Mapping[str, int]:
        skipped = dict(self.retained.checkpoint_metrics.skipped_by_topic)
        if self.session is not None:
            session = self.session
            for topic in (session.configs, session.statuses, session.losses, session.source_offsets):
                if topic.skipped.count:
                    skipped[topic.topic] = topic.skipped.count
        return skipped

    def _state(self, tasks: Sequence[TaskStatus], topics: Sequence[TopicStatus], *, is_paused: bool) -> TaskState:
        """Return the state on this node. ``is_paused``: all of the flow is, not only some topics."""
        if self.own_state is not None:
            return self.own_state
        session = self.session
        if session is None or session.joined is None:
            return TaskState.WAITING
        if self._stopped():
            return TaskState.FAILED
        if session.joined.is_leader and (session.leader_term is None or session.leader_term.error is not None):
            return TaskState.WAITING
        here = ("", self.identity.node_id)  # other nodes report their own tasks; the leader reports unassigned ones
        states = [task.state for task in tasks if task.node in here and not task.only_moves]
        states += [p.state for topic in topics for p in topic.partitions if p.node in here]
        states += [TaskState.FAILED for topic in topics if topic.error is not None]
        return worst(states if is_paused else without_pauses(states))

    def _reasons(
        self, parts: StatusBuilder | None, tasks: Sequence[TaskStatus], topics: Sequence[TopicStatus]
    ) -> list[str]:
        reasons: list[str | None] = [self.error, self._without_membership()]
        if (session := self.session) is not None:
            reasons += self._stopped()
            reasons += [session.leader.error.text, session.configs.error.text, session.statuses.error.text]
            reasons.append(session.losses.error.text)
            reasons += session.audit.reasons
            reasons += session.leader_term.reasons() if session.leader_term is not None else []
            reasons += session.host.reasons()
        if parts is not None:
            session_s = (self.settings.election or self.settings.worker).session_timeout_ms / 1000
            members, now = parts.joined.members, time.monotonic()
            reasons += self.duplicate_node_ids.find(members, now, session_timeout_s=session_s + ROUND_S)
            reasons += parts.about_files()
        reasons += problem_reasons(one for topic in topics for one in topic.problems() if one.reason)
        reasons += [task.error for task in tasks if task.state is TaskState.WAITING and not task.only_moves]
        return list(dict.fromkeys(reason for reason in reasons if reason is not None))

    def _by_remote_topic(self, counts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the counts of source partitions by remote partition, also of topics that exist no more."""
        found: Counter[TopicPartition] = Counter()
        for one, count in counts.items():
            found[TopicPartition(self._remote_topic(one.topic), one.partition)] += count
        return dict(found)

    def _remote_topic(self, topic: str) -> str:
        """Return the name of the remote topic under which losses of the source topic are counted."""
        known = self.retained.progress.losses.remote_topics.get(topic)
        if known is not None:
            return known
        try:
            return self.settings.policy.format_remote_topic(self.settings.aliases.source, topic)
        except PluginError:  # the source task reports it
            return topic

    def _stopped(self) -> list[str]:
        """Return the losses that stop the flow, and on the leader also those that stop only a partition.

        A partition can be stopped although no node has it, since its topic was deleted.
        """
        session = self.session
        if session is None:
            return []
        leads, flow = session.leader_term is not None, self.settings.flow
        return [stop_message(loss, flow) for loss in session.losses.waiting if leads or loss.stops == "flow"]

    def _without_membership(self) -> str | None:
        match self.session.membership if self.session is not None else None:
            case Lost(reason=reason) | HeldByOther(reason=reason) | Joined(error=str(reason)):
                return reason
        return None

    def _group_reasons(self) -> tuple[str, ...]:
        """Return why /flows/…/groups is incomplete on this node."""
        none = reason_for_none(self.settings)
        if none is not None:
            return (none,)
        here = self.session.host.group_reasons if self.session is not None else None
        if here is not None:
            return here
        if elsewhere := self._groups_elsewhere():
            return elsewhere
        if self.session is not None and self.session.configs.pauses.flow:
            return ("the flow is paused",)
        reason = self._without_membership() or self.error
        return () if reason is None else (reason,)

    def _groups_elsewhere(self) -> tuple[str, ...]:
        """Return a message that names the other nodes that run checkpoint tasks, if any."""
        if self.session is None or self.session.joined is None:
            return ()
        places = self.retained.placement.places.items()
        nodes = {place.node for task, place in places if task.kind == TaskKind.CHECKPOINT and place.owner is not None}
        others = sorted(nodes - {self.identity.node_id})
        if not others:
            return ()
        where = f"node {others[0]}; query it" if len(others) == 1 else f"nodes {', '.join(others)}; query them"
        return (f"checkpoint tasks run on {where} for the consumer groups",)


def _still_starting(tasks: Sequence[TaskStatus]) -> str:
    """Return what a flow without any error waits for: lanes, or their first reports about partitions."""
    waiting = [task.id for task in tasks if task.state is TaskState.WAITING]
    return f"{', '.join(waiting)}: waiting for a lane to start" if waiting else "waiting for partitions to start"


def _copy_again(repeat: Repeat) -> CopyAgainStatus:
    return CopyAgainStatus(
        topic=repeat.partition.topic,
        partition=repeat.partition.partition,
        state=str(repeat.state),
        first=repeat.first,
        until=repeat.until,
        since=repeat.at,
        by=repeat.by,
        reason=repeat.reason,
    )
