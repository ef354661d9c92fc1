"""Hand-written node statuses."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from mm2.core.coordination.query_history import QueryEntry, QueryHistory, QueryText
from mm2.core.coordination.query_history_records import QueryHistories, encode_history, encode_query
from mm2.core.lanes.counters import PartitionCounters
from mm2.core.lanes.losses import Loss
from mm2.core.lanes.progress_reports import BatchCount
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.node.status.status_model import (
    CertificateEnd,
    CopyAgainStatus,
    FileStatus,
    FlowStatus,
    GroupPartitionStatus,
    GroupState,
    GroupStatus,
    LaneBuffer,
    MemberStatus,
    NodeStatus,
    PartitionStatus,
    TaskStatus,
    TopicStatus,
)

CERTIFICATE = CertificateEnd(
    cluster="A", kind="broker", subject="CN=b1", expires=1_763_740_800_000, broker="broker b1:9093"
)


def partition(number: int = 0, **changes: object) -> PartitionStatus:
    status = PartitionStatus(
        partition=number,
        state=TaskState.RUNNING,
        position=90,
        end_offset=100,
        lag_records=10,
        lag_seconds=1.5,
        error=None,
        counters=PartitionCounters(
            records=90, bytes=9_000, latency_sum=0.5, latency_count=9, age_sum=0.25, age_count=9, dead_letters=2
        ),
    )
    if "position" in changes and changes["position"] is None:
        changes = {"lag_records": None, "lag_seconds": None, **changes}
    return replace(status, **changes)  # type: ignore[arg-type]


def unheard(number: int = 0, **changes: object) -> PartitionStatus:
    """Return a partition that had caught up when its source was heard last."""
    last = {"observed": 1_763_740_800_250, "last_end_offset": 90, "last_lag_records": 0}
    return partition(number, end_offset=None, lag_records=None, lag_seconds=None, **(last | changes))


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


def group(name: str, *partitions: GroupPartitionStatus, **changes: object) -> GroupStatus:
    status = GroupStatus(
        group=name,
        state=GroupState.TRANSLATED,
        reason="all is well",
        source_state=None,
        target_state=None,
        partitions=partitions,
    )
    return replace(status, **changes)  # type: ignore[arg-type]


COPIED_AGAIN = CopyAgainStatus(
    topic="orders",
    partition=0,
    state="started",
    first=40,
    until=95,
    since=1_763_740_800_000,
    by="alice",
    reason="CHG-1",
)


def flow(*topics: TopicStatus, **changes: object) -> FlowStatus:
    status = FlowStatus(
        flow="A->B",
        source="A",
        target="B",
        enabled=True,
        state=TaskState.RUNNING,
        leader="node-1",
        is_leader=True,
        epoch=7,
        reasons=(),
        tasks=(task(), task(id="MirrorHeartbeatConnector-0", kind="heartbeat")),
        topics=topics or (topic(),),
        batches=(
            BatchCount(path="pass-through", reason="", batches=42),
            BatchCount(path="rebatch", reason="compaction", batches=3),
        ),
        heartbeats_total=5,
    )
    copied = [one for topic in status.topics for one in topic.partitions]
    totals = {
        "records_total": sum(one.counters.records for one in copied),
        "bytes_total": sum(one.counters.bytes for one in copied),
    }
    return replace(status, **(totals | changes))  # type: ignore[arg-type]


def heartbeat_flow(**changes: object) -> FlowStatus:
    status = FlowStatus(
        flow="B->A",
        source="B",
        target="A",
        enabled=False,
        state=TaskState.RUNNING,
        leader=None,
        is_leader=False,
        epoch=1,
        reasons=(),
        topics=(),
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
        lane_buffers=(LaneBuffer(lane=0, used=4096, limit=65536),),
    )
    return replace(status, **changes)  # type: ignore[arg-type]


LOSS = Loss(
    topic="orders",
    partition=0,
    first=10,
    until=25,
    reason="retention was faster than replication",
    kind="retention",
    time=1_763_740_800_000,
)
MASK = QueryText(text="SELECT sha2(key, 256) AS key FROM records", sha256="ab" * 32)
QUERIES = QueryHistories()
QUERIES.take(*encode_query(MASK))
QUERIES.take(
    *encode_history(
        TopicPartition("orders", 0),
        QueryHistory(
            (
                QueryEntry(42, MASK.sha256, 1_763_740_800_000),
                QueryEntry(90, None, 1_763_740_900_000),
                QueryEntry(120, "cd" * 32, 1_763_741_000_000),
            ),
            UUID(int=7),
        ),
    )
)
QUERIES.take(*encode_history(TopicPartition("users", 3), QueryHistory((QueryEntry(0, MASK.sha256, 5),))))
LOST = {TopicPartition("A.orders", 0): 15}
LOSS_COUNTS = {TopicPartition("A.orders", 0): 2}
UNACCEPTED = {(TopicPartition("A.orders", 0), "retention"): 2, (TopicPartition("A.gone", 1), "topic-deleted"): 1}


def wide_node(topics: int, partitions: int) -> NodeStatus:
    """Return the status of a node with ``topics`` x ``partitions`` partitions."""
    return node(flow(*(topic(f"topic-{n}", *map(partition, range(partitions))) for n in range(topics))))
