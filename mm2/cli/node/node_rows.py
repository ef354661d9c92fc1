"""The nodes of a flow as rows: the tasks of each, and how much it copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mm2.cli.node.progress_rates import Pace
from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import FlowStatus, MemberStatus, PartitionStatus, TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node. ``role``: ``leader``, ``leaving``, ``former`` (member), or empty. ``lag_records`` is the sum over
    partitions with a known lag, None without any; ``unknown`` counts the others. ``lanes`` None: not a member."""

    node: str
    role: str
    tasks: str
    partitions: int
    records_per_second: float | None
    lag_records: int | None
    unknown: int
    lanes: int | None
    release: str
    url: str


def node_rows(flow: FlowStatus, pace: Pace) -> list[NodeRow]:
    """Return the members in their order, then other nodes that run tasks or partitions."""
    parts: dict[str, list[tuple[str, PartitionStatus]]] = {}
    for topic in flow.topics:
        for partition in topic.partitions:
            parts.setdefault(partition.node, []).append((topic.topic, partition))
    tasks: dict[str, list[TaskStatus]] = {}
    for task in flow.tasks:
        tasks.setdefault(task.node, []).append(task)
    others = sorted({*tasks, *parts} - {member.node for member in flow.members} - {""})
    nodes: list[MemberStatus | str] = [*flow.members, *others]
    return [_row(flow, node, tasks, parts, pace) for node in nodes]


def _row(
    flow: FlowStatus,
    node: MemberStatus | str,
    tasks: Mapping[str, Sequence[TaskStatus]],
    parts: Mapping[str, Sequence[tuple[str, PartitionStatus]]],
    pace: Pace,
) -> NodeRow:
    name, member = (node, None) if isinstance(node, str) else (node.node, node)
    copied = parts.get(name, ())
    lags = [one.lag_records for _, one in copied if one.lag_records is not None]
    return NodeRow(
        node=name,
        role=_role(member),
        tasks=_tasks(tasks.get(name, ())),
        partitions=len(copied),
        records_per_second=pace.rate(*((flow.flow, topic, one.partition) for topic, one in copied)),
        lag_records=sum(lags) if lags else None,
        unknown=len(copied) - len(lags),
        lanes=member.capacity if member is not None else None,
        release=member.version if member is not None else "",
        url=member.url if member is not None else "",
    )


def _role(member: MemberStatus | None) -> str:
    if member is None:
        return "former"
    if member.leads:
        return "leader"
    return "leaving" if member.capacity == 0 else ""


def _tasks(tasks: Iterable[TaskStatus]) -> str:
    """Return the tasks by kind, with the state of those that do not run: ``source 0, 2 WAITING  checkpoint 0``."""
    kinds: dict[str, list[str]] = {}
    for task in tasks:
        state = "" if task.state is TaskState.RUNNING else f" {task.state}"
        kinds.setdefault(task.kind, []).append(task.id.rpartition("-")[2] + state)
    return "  ".join(f"{kind} {', '.join(numbers)}" for kind, numbers in kinds.items())
