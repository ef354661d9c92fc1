"""The nodes of a flow as rows: which tasks each of them runs, and how much it copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mm2.cli.pace import Pace
from mm2.core.lease import TaskState
from mm2.rest.shapes import FlowShape, MemberShape, PartitionShape, TaskShape


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node. ``role``: leads, leaves, gone (no member any more), or nothing of note.
    ``lag_records`` -1: not known; ``lanes`` None: it is gone."""

    node: str
    role: str
    tasks: str
    partitions: int
    records_per_second: float | None
    lag_records: int
    lanes: int | None
    release: str
    url: str


def node_rows(flow: FlowShape, pace: Pace) -> list[NodeRow]:
    """Members in their order, then whoever else runs something."""
    parts: dict[str, list[tuple[str, PartitionShape]]] = {}
    for topic in flow.topics:
        for partition in topic.partitions:
            parts.setdefault(partition.node, []).append((topic.topic, partition))
    tasks: dict[str, list[TaskShape]] = {}
    for task in flow.tasks:
        tasks.setdefault(task.node, []).append(task)
    others = sorted({*tasks, *parts} - {member.node for member in flow.members} - {""})
    nodes: list[MemberShape | str] = [*flow.members, *others]
    return [_row(flow, node, tasks, parts, pace) for node in nodes]


def _row(
    flow: FlowShape,
    node: MemberShape | str,
    tasks: Mapping[str, Sequence[TaskShape]],
    parts: Mapping[str, Sequence[tuple[str, PartitionShape]]],
    pace: Pace,
) -> NodeRow:
    name, member = (node, None) if isinstance(node, str) else (node.node, node)
    copied = parts.get(name, ())
    rates = [pace.rate((flow.flow, topic, one.partition)) for topic, one in copied]
    moved = [rate for rate in rates if rate is not None]
    lags = [one.lag_records for _, one in copied if one.lag_records >= 0]
    return NodeRow(
        node=name,
        role=_role(member),
        tasks=_tasks(tasks.get(name, ())),
        partitions=len(copied),
        records_per_second=sum(moved) if moved else None,
        lag_records=sum(lags) if lags else -1,
        lanes=member.capacity if member is not None else None,
        release=member.version if member is not None else "",
        url=member.url if member is not None else "",
    )


def _role(member: MemberShape | None) -> str:
    if member is None:
        return "gone"
    if member.leads:
        return "leads"
    return "leaves" if member.capacity == 0 else ""


def _tasks(tasks: Iterable[TaskShape]) -> str:
    """``source 0, 2 WAITING  checkpoint 0``: by kind, with the state of those that do not run."""
    kinds: dict[str, list[str]] = {}
    for task in tasks:
        state = "" if task.state is TaskState.RUNNING else f" {task.state}"
        kinds.setdefault(task.kind, []).append(task.id.rpartition("-")[2] + state)
    return "  ".join(f"{kind} {', '.join(numbers)}" for kind, numbers in kinds.items())
