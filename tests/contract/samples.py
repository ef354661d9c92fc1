"""Handmade published states, as a node would show them."""

from __future__ import annotations

from dataclasses import replace

from mm2.core.lease import BatchCount, Loss, TaskState
from mm2.core.names import Flow
from mm2.node.published import (
    FileStatus,
    FlowStatus,
    MemberStatus,
    NodeStatus,
    PartitionStatus,
    TaskStatus,
    TopicStatus,
)

A_B = Flow("A", "B")
B_A = Flow("B", "A")


def partition(number: int = 0, **changes: object) -> PartitionStatus:
    status = PartitionStatus(
        partition=number,
        state=TaskState.RUNNING,
        position=90,
        end_offset=100,
        lag_records=10,
        lag_seconds=1.5,
        error=None,
        records_total=90,
        bytes_total=9_000,
        latency_sum=0.5,
        latency_count=9,
        age_sum=0.25,
        age_count=9,
    )
    return replace(status, **changes)  # type: ignore[arg-type]


def topic(name: str = "orders", *partitions: PartitionStatus, **changes: object) -> TopicStatus:
    status = TopicStatus(
        topic=name,
        remote_topic=f"A.{name}",
        state=TaskState.RUNNING,
        error=None,
        partitions=partitions or (partition(),),
    )
    return replace(status, **changes)  # type: ignore[arg-type]


def task(**changes: object) -> TaskStatus:
    status = TaskStatus(id="MirrorSourceConnector-0", kind="source", node="node-1", state=TaskState.RUNNING, error=None)
    return replace(status, **changes)  # type: ignore[arg-type]


def member(name: str = "node-1", url: str = "", *tasks: str, leads: bool = False) -> MemberStatus:
    return MemberStatus(node=name, url=url, leads=leads, capacity=2, tasks=tasks, version="0.1.0", terms="1-a")


def flow(*topics: TopicStatus, **changes: object) -> FlowStatus:
    status = FlowStatus(
        flow=A_B,
        enabled=True,
        state=TaskState.RUNNING,
        leader="node-1",
        is_leader=True,
        epoch=7,
        tasks=(task(), task(id="MirrorHeartbeatConnector-0", kind="heartbeat")),
        topics=topics or (topic(),),
        batches=(
            BatchCount(path="pass-through", reason="", batches=42),
            BatchCount(path="rebatch", reason="compaction", batches=3),
        ),
        heartbeats_total=5,
    )
    return replace(status, **changes)  # type: ignore[arg-type]


def heartbeat_flow(**changes: object) -> FlowStatus:
    status = FlowStatus(
        flow=B_A,
        enabled=False,
        state=TaskState.RUNNING,
        leader=None,
        is_leader=False,
        epoch=1,
        tasks=(task(id="MirrorHeartbeatConnector-0", kind="heartbeat"),),
    )
    return replace(status, **changes)  # type: ignore[arg-type]


def node(*flows: FlowStatus, **changes: object) -> NodeStatus:
    status = NodeStatus(
        node_id="node-1",
        version="0.1.0",
        started_at=1_700_000_000.0,
        flows=flows or (flow(), heartbeat_flow()),
        file=FileStatus(path="mm2.properties", digest="0123456789abcdef", loaded_at=1_700_000_000.0),
        spark_ui="http://127.0.0.1:4040",
    )
    return replace(status, **changes)  # type: ignore[arg-type]


LOSS = Loss(topic="orders", partition=0, first=10, until=25, reason="retention was faster than replication")


def wide_node(topics: int, partitions: int) -> NodeStatus:
    """A node with ``topics`` x ``partitions`` partitions."""
    return node(flow(*(topic(f"topic-{n}", *map(partition, range(partitions))) for n in range(topics))))
