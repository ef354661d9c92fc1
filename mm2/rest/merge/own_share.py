"""The part of a node's status that it reports in its own name, in /health and /metrics."""

from __future__ import annotations

from dataclasses import replace

from mm2.core.lanes.task_states import TaskState, worst
from mm2.node.status.status_model import FlowStatus, NodeStatus, TopicStatus


def own_share(status: NodeStatus) -> tuple[FlowStatus, ...]:
    """Return the node's flows without the tasks and partitions of other nodes, which report newer states themselves.
    The leader includes those that no node runs."""
    ours = ("", status.node_id)
    return tuple(_own(flow, ours) if len(flow.members) > 1 else flow for flow in status.flows)


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
