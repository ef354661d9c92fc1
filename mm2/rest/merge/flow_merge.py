"""The status of a whole flow, merged from the shares of its nodes.

A share is the status of the flow on one node: its own tasks and partitions, and on the leader those of all nodes. In
the merged status

A. each task, topic and partition occurs once. If the leader answered, they are those that the leader lists; otherwise
   those of all shares and of the lists that the last leader published;
B. the state and the progress of a task or partition are those of the node that runs it;
C. tasks and partitions of a node that did not answer are WAITING, their progress is unknown, and a reason gives the
   cause;
D. leader, epoch, members, pauses and assignment audit are those of the leader of the newest epoch, or if it did not
   answer, of the node with the newest epoch;
E. the flow is PAUSED only if all of it is paused, not only some of its topics, and tasks that only move (checkpoints,
   heartbeats) do not change its state;
F. progress is never that of a node that does not run the partition; what no node runs has the progress that the leader
   has found on the clusters;
G. what limits the flow is concluded from what the partitions of all nodes that answered wait for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from mm2.core.assignment.tasks import TaskId
from mm2.core.coordination.pauses import pauses_flow
from mm2.core.lanes.bottlenecks import sum_of_waits
from mm2.core.lanes.losses import Loss, LossKey
from mm2.core.lanes.task_states import TaskState, without_pauses, worst
from mm2.core.observation.unreplicated import unreplicated
from mm2.core.problems.grouped_problems import reasons as problem_reasons
from mm2.node.status.pace_limit import pace_limit
from mm2.node.status.status_model import FlowStatus, NodeStatus, PartitionStatus, TaskStatus, TopicStatus
from mm2.rest.merge.flow_problems import placed_reasons, topic_reasons

One = TypeVar("One", TaskStatus, PartitionStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowShare:
    """The status of a flow on ``node``. ``leads``: the node leads the flow, and lists all of it."""

    node: str
    leads: bool
    flow: FlowStatus


Answers = Mapping[str, FlowShare | str]
"""The shares of the flow's other nodes by node ID, or why a node did not answer."""


def share_of(node: str, flow: FlowStatus) -> FlowShare:
    """Return the share of ``node``. A new leader that has not read the topics yet does not list all of the flow."""
    return FlowShare(node=node, leads=flow.is_leader and not flow.elsewhere, flow=flow)


def merge_flow(own: FlowShare, answers: Answers) -> FlowStatus:
    """Return the status of the whole flow. ``own`` is the share of this node; a single node's share is the whole."""
    if not answers and not own.flow.elsewhere:
        return _with_unreplicated(own.flow)
    answered = [own, *(answers[node] for node in sorted(answers))]
    shares = [share for share in answered if isinstance(share, FlowShare)]
    silent = {node: why for node, why in sorted(answers.items()) if isinstance(why, str)}
    leader = max(shares, key=lambda share: (share.flow.epoch, share.leads, share is own))
    tasks = tuple(_tasks(leader, shares, silent))
    listed = (
        leader.flow.topics if leader.leads else _of_all([*(share.flow.topics for share in shares), own.flow.elsewhere])
    )
    topics = tuple(_topics(listed, shares, silent))
    states = [
        *map(_own_state, shares),
        *(task.state for task in tasks if not task.only_moves),
        *(one.state for one in topics),
    ]
    is_paused = pauses_flow(leader.flow.paused, {one.topic for one in topics})
    last_minute = sum_of_waits(share.flow.last_minute for share in shares)
    return _with_unreplicated(
        replace(
            leader.flow,
            enabled=own.flow.enabled,
            state=worst(states if is_paused else without_pauses(states)),
            reasons=tuple(dict.fromkeys(_reasons(leader, shares, silent, topics))),
            tasks=tasks,
            topics=topics,
            losses=_losses(shares),
            limited_by=pace_limit(topics, last_minute, enabled=own.flow.enabled),
            last_minute=last_minute,
        )
    )


def _with_unreplicated(flow: FlowStatus) -> FlowStatus:
    return replace(flow, unreplicated=unreplicated(one for topic in flow.topics for one in topic.partitions))


def _own_state(share: FlowShare) -> TaskState:
    """Return the state of the flow on a node, unless the leader only repeats there what it last read of another."""
    placed = [(task.node, task.state) for task in share.flow.tasks]
    placed += [(one.node, one.state) for topic in share.flow.topics for one in topic.partitions]
    state = share.flow.state
    if (share.node, state) not in placed and any(one == state and node != share.node for node, one in placed):
        return TaskState.RUNNING
    return state


def _tasks(leader: FlowShare, shares: Sequence[FlowShare], silent: Collection[str]) -> Iterator[TaskStatus]:
    listed = {task.id: task for task in leader.flow.tasks}
    if not leader.leads:
        listed = {task.id: task for share in shares for task in share.flow.tasks}
        for member in leader.flow.members:
            if member.node in silent:
                listed |= {id: _waiting_task(id, member.node) for id in member.tasks if id not in listed}
    running: dict[str, dict[str, TaskStatus]] = {}
    for share in shares:
        for task in share.flow.tasks:
            if task.node == share.node:
                running.setdefault(task.id, {})[share.node] = task
    for id, task in listed.items() if leader.leads else sorted(listed.items()):
        status = _newest_status(task, running.get(id, {}))
        if status is not None:
            yield status
        else:
            is_silent = task.node in silent
            yield replace(task, state=TaskState.WAITING, error=None, only_moves=False) if is_silent else task


def _waiting_task(id: str, node: str) -> TaskStatus:
    try:
        kind = TaskId.parse(id).label
    except ValueError:
        kind = "unknown"
    return TaskStatus(id=id, kind=kind, node=node, state=TaskState.WAITING, error=None)


def _topics(
    listed: Iterable[TopicStatus], shares: Sequence[FlowShare], silent: Collection[str]
) -> Iterator[TopicStatus]:
    running: dict[tuple[str, int], dict[str, PartitionStatus]] = {}
    for share in shares:
        for topic in share.flow.topics:
            for partition in topic.partitions:
                if partition.node == share.node:
                    running.setdefault((topic.topic, partition.partition), {})[share.node] = partition
    for topic in listed:
        partitions = []
        for partition in topic.partitions:
            status = _newest_status(partition, running.get((topic.topic, partition.partition), {}))
            if status is None:
                partitions.append(_unknown(partition, is_silent=partition.node in silent))
            else:
                partitions.append(_with_extent(status, partition))
        state = TaskState.FAILED if topic.error is not None else worst(one.state for one in partitions)
        yield replace(topic, state=state, partitions=tuple(partitions))


def _of_all(lists: Iterable[Iterable[TopicStatus]]) -> list[TopicStatus]:
    """Return the union of ``lists``, sorted by topic; of a partition in several lists, that of the first."""
    found: dict[str, TopicStatus] = {}
    for topics in lists:
        for topic in topics:
            before = found.get(topic.topic, topic)
            partitions = {one.partition: one for one in (*topic.partitions, *before.partitions)}
            found[topic.topic] = replace(
                before,
                error=before.error if before.error is not None else topic.error,
                partitions=tuple(partitions[number] for number in sorted(partitions)),
            )
    return [found[name] for name in sorted(found)]


def _newest_status(listed: One, running: Mapping[str, One]) -> One | None:
    """Return the status on the node that runs it. Of several nodes, one that has started and not stopped it counts,
    which is the previous owner while it moves; of several of those, the node that it is assigned to."""
    idle = (TaskState.WAITING, TaskState.STOPPED)
    return min(running.values(), key=lambda one: (one.state in idle, one.node != listed.node, one.node), default=None)


def _with_extent(status: PartitionStatus, listed: PartitionStatus) -> PartitionStatus:
    """Return the status with what only the leader knows: how far back the exact offset map goes."""
    if (status.exact_from, status.exact_to_start) == (listed.exact_from, listed.exact_to_start):
        return status
    return replace(status, exact_from=listed.exact_from, exact_to_start=listed.exact_to_start)


def _unknown(partition: PartitionStatus, *, is_silent: bool) -> PartitionStatus:
    """Return the status of a partition that no answering node runs. ``is_silent``: its node did not answer."""
    if not partition.node:
        return partition
    if is_silent:
        partition = replace(partition, state=TaskState.WAITING, error=None)
    return replace(
        partition,
        position=None,
        end_offset=None,
        lag_records=None,
        lag_seconds=None,
        observed=None,
        last_end_offset=None,
        last_lag_records=None,
        lag_records_at_most=None,
        retention_margin_records=None,
        retention_margin_seconds=None,
        step=None,
        stopped_at=None,
        stopped_until=None,
    )


def _reasons(
    leader: FlowShare, shares: Sequence[FlowShare], silent: Mapping[str, str], topics: Sequence[TopicStatus]
) -> Iterator[str]:
    """Return the leader's reasons, those of other nodes with their node IDs, and why nodes did not answer. What a node
    reports about one of its tasks is shown at that task; ``topics`` have the problems of topics of all nodes."""
    about_topics = topic_reasons(leader.flow)
    yield from (reason for reason in leader.flow.reasons if reason not in about_topics)
    yield from problem_reasons(one for topic in topics for one in topic.problems() if one.reason)
    others: dict[str, list[str]] = {}
    for share in shares:
        placed = placed_reasons(share.flow)
        for reason in share.flow.reasons:
            if share is not leader and reason not in leader.flow.reasons and reason not in placed:
                others.setdefault(reason, []).append(share.node)
    for reason, nodes in others.items():
        yield f"on {', '.join(nodes)}: {reason}"
    for node, why in silent.items():
        yield unseen(node, why)


def unseen(node: str, why: str) -> str:
    """Return the reason shown for a node that did not answer."""
    return f"state of node {node} is unknown: {why}"


def _losses(shares: Sequence[FlowShare]) -> tuple[Loss, ...]:
    found: dict[LossKey, Loss] = {}
    for share in shares:
        for loss in share.flow.losses:
            before = found.setdefault(loss.key, loss)
            if loss.until > before.until or (loss.until == before.until and loss.accepted and not before.accepted):
                found[loss.key] = loss  # the other was reported while it was still growing, or before its acceptance
    return tuple(found[key] for key in sorted(found))


def own_share(status: NodeStatus) -> tuple[FlowStatus, ...]:
    """Return the node's flows without the tasks and partitions of other nodes, which report newer states themselves.
    The leader includes those that no node runs. A node that is no member shows those that it ran last."""
    ours = ("", status.node_id)
    return tuple(flow if len(flow.members) == 1 else _own(flow, ours) for flow in status.flows)


def _own(flow: FlowStatus, ours: tuple[str, str]) -> FlowStatus:
    topics = (_own_topic(topic, ours) for topic in flow.topics)
    return replace(
        flow,
        tasks=tuple(task for task in flow.tasks if task.node in ours),
        topics=tuple(topic for topic in topics if topic.partitions or topic.error is not None),
    )


def _own_topic(topic: TopicStatus, ours: tuple[str, str]) -> TopicStatus:
    partitions = tuple(one for one in topic.partitions if one.node in ours)
    state = TaskState.FAILED if topic.error is not None else worst(one.state for one in partitions)
    return replace(topic, state=state, partitions=partitions)
