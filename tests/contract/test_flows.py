from __future__ import annotations

import pytest

from mm2.core.coordination.pauses import PauseOrigin
from mm2.core.lanes.partition_steps import RecentWaits, Wait
from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import AssignmentAuditStatus, DeletedTopicStatus
from tests.contract.conftest import Serve
from tests.contract.samples import COPIED_AGAIN, LOSS, flow, heartbeat_flow, member, node, partition, topic, wide_node


async def test_response_fields(serve: Serve) -> None:
    failed = partition(
        1,
        state=TaskState.FAILED,
        error="offset 17 is too large",
        position=None,
        end_offset=None,
        lag_records=None,
        stopped_at=17,
        stopped_until=18,
        step="PAUSED",
        observed=1_763_740_800_250,
        last_end_offset=120,
        last_lag_records=7,
        retention_margin_records=5,
        retention_margin_seconds=60.5,
        exact_from=12,
        exact_to_start=False,
    )
    copied = partition(0, source_task=2, node="node-1")
    replicating = flow(
        topic("orders", copied, failed, state=TaskState.FAILED),
        losses=(LOSS,),
        left_selection=("payments",),
        deleted_topics=(DeletedTopicStatus(topic="users", remote_topic="A.users", since=None, noticed=5),),
        members=(member("node-1", "http://node-1:8083", "MirrorSourceConnector-0", leads=True),),
        paused=("users",),
        paused_since={"users": 1_763_740_800_000},
        paused_by={"users": PauseOrigin(who="alice", reason="CHG-1234")},
        copying_again=(COPIED_AGAIN,),
        assignment_audit={"tasks": AssignmentAuditStatus(assigned=2, moving=1)},
        limited_by="limited by the query, 100 % of the last 2 s",
        last_minute=RecentWaits(waits=(Wait(on="query", seconds=2.0),), behind=2.0),
        max_bytes_per_second=1_000_000,
    )
    client = await serve(node(replicating, heartbeat_flow()))
    answer = await client.get("/flows")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    running = {"node": "node-1", "state": "RUNNING", "error": None, "only_moves": False}
    assert answer.json() == [
        {
            "flow": "A->B",
            "source": "A",
            "target": "B",
            "enabled": True,
            "state": "RUNNING",
            "leader": "node-1",
            "epoch": 7,
            "reasons": [],
            "tasks": [
                {"id": "MirrorSourceConnector-0", "kind": "source", **running},
                {"id": "MirrorHeartbeatConnector-0", "kind": "heartbeat", **running},
            ],
            "topics": [
                {
                    "topic": "orders",
                    "remote_topic": "A.orders",
                    "state": "FAILED",
                    "error": None,
                    "query": None,
                    "partitions": [
                        {
                            "partition": 0,
                            "state": "RUNNING",
                            "position": 90,
                            "end_offset": 100,
                            "lag_records": 10,
                            "lag_seconds": 1.5,
                            "error": None,
                            "source_task": 2,
                            "node": "node-1",
                            "step": None,
                            "stopped_at": None,
                            "stopped_until": None,
                            "observed": None,
                            "last_end_offset": None,
                            "last_lag_records": None,
                            "lag_records_at_most": None,
                            "retention_margin_records": None,
                            "retention_margin_seconds": None,
                            "exact_from": None,
                            "exact_to_start": None,
                        },
                        {
                            "partition": 1,
                            "state": "FAILED",
                            "position": None,
                            "end_offset": None,
                            "lag_records": None,
                            "lag_seconds": None,
                            "error": "offset 17 is too large",
                            "source_task": None,
                            "node": "",
                            "step": "PAUSED",
                            "stopped_at": 17,
                            "stopped_until": 18,
                            "observed": 1_763_740_800_250,
                            "last_end_offset": 120,
                            "last_lag_records": 7,
                            "lag_records_at_most": None,
                            "retention_margin_records": 5,
                            "retention_margin_seconds": 60.5,
                            "exact_from": 12,
                            "exact_to_start": False,
                        },
                    ],
                    "retention_margin_records": 5,
                    "retention_margin_seconds": 60.5,
                }
            ],
            "losses": [
                {
                    "topic": "orders",
                    "partition": 0,
                    "first": 10,
                    "until": 25,
                    "reason": "retention was faster than replication",
                    "kind": "retention",
                    "time": 1_763_740_800_000,
                    "last": 24,
                    "count": 1,
                    "lost": None,
                    "topic_id": None,
                    "stops": "",
                    "accepted": False,
                    "remote_topic": None,
                    "accepted_at": None,
                    "accepted_by": None,
                    "accept_reason": None,
                }
            ],
            "members": [
                {
                    "node": "node-1",
                    "url": "http://node-1:8083",
                    "leads": True,
                    "capacity": 2,
                    "tasks": ["MirrorSourceConnector-0"],
                    "version": "0.1.0",
                    "terms": "1-a",
                }
            ],
            "paused": ["users"],
            "paused_since": {"users": 1_763_740_800_000},
            "paused_by": {"users": {"who": "alice", "reason": "CHG-1234"}},
            "copying_again": [
                {
                    "topic": "orders",
                    "partition": 0,
                    "state": "started",
                    "first": 40,
                    "until": 95,
                    "since": 1_763_740_800_000,
                    "by": "alice",
                    "reason": "CHG-1",
                }
            ],
            "left_selection": ["payments"],
            "deleted_topics": [{"topic": "users", "remote_topic": "A.users", "since": None, "noticed": 5}],
            "assignment_audit": {
                "tasks": {"assigned": 2, "moving": 1, "unassigned": 0, "duplicated": 0, "unexpected": 0}
            },
            "limited_by": "limited by the query, 100 % of the last 2 s",
            "last_minute": {"waits": [{"on": "query", "seconds": 2.0}], "behind": 2.0},
            "max_bytes_per_second": 1_000_000,
            "unreplicated": {
                "partitions": 2,
                "unknown_partitions": 1,
                "records": 10,
                "seconds": 1.5,
                "last_records": 7,
                "observed": 1_763_740_800_250,
            },
        },
        {
            "flow": "B->A",
            "source": "B",
            "target": "A",
            "enabled": False,
            "state": "RUNNING",
            "leader": None,
            "epoch": 1,
            "reasons": [],
            "tasks": [{"id": "MirrorHeartbeatConnector-0", "kind": "heartbeat", **running}],
            "topics": [],
            "losses": [],
            "members": [],
            "paused": [],
            "paused_since": {},
            "paused_by": {},
            "copying_again": [],
            "left_selection": None,
            "deleted_topics": None,
            "assignment_audit": {},
            "limited_by": None,
            "last_minute": None,
            "max_bytes_per_second": None,
            "unreplicated": None,
        },
    ]


async def test_large_responses_are_compressed_if_accepted(serve: Serve) -> None:
    client = await serve(wide_node(100, 10))
    packed = await client.get("/flows")
    plain = await client.get("/flows", headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/flows", "/flows/A/B/groups", "/health", "/health/live", "/metrics", "/docs"])
async def test_write_methods_are_rejected(serve: Serve, method: str, path: str) -> None:
    assert (await (await serve(node())).request(method, path)).status_code == 405


@pytest.mark.parametrize("path", ["/flows", "/flows/A/B/groups", "/health", "/health/live", "/metrics", "/docs"])
async def test_head_returns_the_headers_of_get(serve: Serve, path: str) -> None:
    client = await serve(node())
    got, head = await client.get(path), await client.head(path)
    assert head.status_code == got.status_code
    assert head.headers["content-type"] == got.headers["content-type"]
    assert (head.content, bool(got.content)) == (b"", True)
