"""Messages of a later release: what nodes, lanes and engines exchange can get more fields, records and kinds of tasks.

During a rolling upgrade, nodes of two releases share a flow.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import TypeAdapter

from flows.engine import EngineStart
from mm2.core.assignment.checkpoint_task_records import GroupList, decode_groups, encode_groups
from mm2.core.assignment.source_task_records import SourceTaskRecord, decode_source_task, encode_source_task
from mm2.core.assignment.source_task_releases import SourceTaskRelease, decode_release
from mm2.core.assignment.source_task_reports import SourceTaskReport, decode_report
from mm2.core.assignment.task_placement import TaskAssignments, TaskPlacement
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.core.coordination.command_records import decode_command, encode_command
from mm2.core.coordination.config_fingerprint import ConfigFingerprint, decode_fingerprint, encode_fingerprint
from mm2.core.coordination.pauses import Pauses, decode_pauses, encode_pauses
from mm2.core.coordination.query_history import QueryEntry, QueryHistory, QueryText, QueryUse
from mm2.core.coordination.query_history_records import QueryHistories, encode_history, encode_query
from mm2.core.coordination.query_uses import ReportedQueryUses, encode_query_uses
from mm2.core.coordination.session_keys import SessionKey, decode_session_key, encode_session_key
from mm2.core.lanes.engine_orders import (
    EngineOrders,
    EngineReport,
    LaneEnd,
    LaneStart,
)
from mm2.core.lanes.fetch_shares import FetchShares, decode_shares, encode_shares
from mm2.core.lanes.lease import (
    FlowLease,
    LaneOrders,
    LeaseEndpoint,
    LeaseGrant,
    LeaseRenewal,
    LeaseRequest,
    SourceTaskShare,
    TaskProducer,
)
from mm2.core.lanes.losses import decode_loss, encode_loss, encode_loss_key
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.core.wire.status_records import (
    ConnectState,
    Status,
    TopicUse,
    decode_status,
    decode_topic_use,
    encode_status,
    encode_topic_use,
)
from mm2.election.kafka.group_messages import GroupAnswer, decode_answer, decode_member, encode_answer, encode_member
from mm2.election.protocol import MemberInfo
from mm2.election.zookeeper.zookeeper_election import RebalanceMessage, decode_round, encode_round
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.node.commands.refresh import Refresh
from mm2.node.commands.registry import command_types
from mm2.node.commands.restart import RestartTask
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.status_store import StatusStore
from mm2.rest.public import flows, groups
from mm2.rest.public.queries import queries_response
from mm2.rest.public.response_bodies import LossesResponse
from tests.contract.samples import LOSS, QUERIES, flow, group, member, node
from tests.lab.tasks import unconnected_cluster
from tests.unit.config import files
from tests.unit.node.engine.lane_boards import said, source_task_lease

LATER = "of-a-later-release"
MAPS = frozenset(
    {
        "partitions",
        "ids",
        "demands",
        "terms",
        "members",
        "answers",
        "answer",
        "spark",
        "assignment_audit",
        "paused_since",
        "paused_by",
        "credentials",
        "shares",
        "log_levels",
    }
)
"""Objects whose keys are names or numbers of something: another key is not a field."""

ORDERS = TopicPartition("orders", 0)
LIST = SourceTaskRecord(
    source_task=3,
    epoch=7,
    version=2,
    partitions=frozenset({ORDERS}),
    topic_ids={"orders": TopicIds(UUID(int=1), None)},
)
GROUPS = GroupList(task=1, epoch=7, version=2, groups=frozenset({"billing"}))
REPORT = SourceTaskReport(source_task=3, epoch=7, version=2, member="m", node="n", demands={ORDERS: 12_000})
RELEASE = SourceTaskRelease(source_task=3, producer_id=4711, epoch=3)
MEMBER = MemberInfo(node_id="one", url="http://one", capacity=2, tasks=("t",), epoch=3, kinds=("K",))
PLACEMENT = TaskAssignments(
    epoch=7,
    places={TaskId(TaskKind.SOURCE, 0): TaskPlacement(owner="m", node="one", since=3, home="one")},
    seen={"one": 1_000},
)
QUERY = QueryText(text="SELECT * FROM records", sha256="ab" * 32)
ENTRY = QueryEntry(42, QUERY.sha256, 1)
LEASE = replace(source_task_lease(0, 2), producer=TaskProducer("A-mm2-MirrorSourceConnector-0", 4711, 3))
GRANT = LeaseGrant(
    session="secret",
    renewal=LeaseRenewal(
        seconds=14,
        flows=(FlowLease(flow=Flow("A", "B"), seconds=9.5),),
        fetch_shares=(SourceTaskShare(flow=Flow("A", "B"), source_task=0, bytes_per_second=250_000),),
        orders=LaneOrders(version=1, source_tasks=(LEASE,)),
    ),
)
START = EngineStart(
    node_url="http://localhost",
    token="secret",
    app_name="mm2",
    spark={"spark.master": "local[2]"},
    leases=LeaseEndpoint(url="http://localhost"),
    on_cluster=False,
)
ENGINE_REPORT = EngineReport(
    version=1, pid=1, jvm_pid=2, spark_ui=None, ended=(LaneEnd(lane=0, token="t", error="lost"),)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The bytes of one kind of message, and how its receiver reads them. ``compressed``: as the leader's answers."""

    raw: bytes
    read: Callable[[bytes], object]
    compressed: bool = False

    def unpack(self) -> bytes:
        return lzma.decompress(self.raw[1:]) if self.compressed else self.raw

    def pack(self, raw: bytes) -> bytes:
        return self.raw[:1] + lzma.compress(raw) if self.compressed else raw


def by_pydantic(value: object) -> Message:
    adapter: TypeAdapter[object] = TypeAdapter(type(value))
    return Message(raw=adapter.dump_json(value), read=adapter.validate_json)


def command(raw: bytes) -> object:
    return decode_command(raw, command_types())


def placement(raw: bytes) -> object:
    return TaskAssignments.from_json(json.loads(raw))


def status_share(raw: bytes) -> object:
    return flows.SHARE.read(raw, member("node-1"))


def query(raw: bytes) -> object:
    found = QueryHistories()
    return found.take(encode_query(QUERY)[0], raw) and found.texts


def query_history(raw: bytes) -> object:
    found = QueryHistories()
    return found.take(b"mm2-query-history-orders-0", raw) and found.of(ORDERS)


def query_uses(raw: bytes) -> object:
    found = ReportedQueryUses()
    found.take(b"mm2-query-use-3", raw)
    return found.uses, found.queries


STATUS = Status(state=ConnectState.RUNNING, worker_id="w", generation=4)
USE = TopicUse(topic="A.orders", connector="MirrorSourceConnector", task=1, discovered_ms=7)
ANSWER = GroupAnswer(leader_id="m", members={"m": MEMBER}, assignment="all")
ROUND = RebalanceMessage(leader_id="m", members={"m": MEMBER}, answers={"m": 1})

MESSAGES = {
    "list of a source task": Message(
        raw=encode_source_task(LIST)[0][1], read=lambda raw: decode_source_task(b"mm2-source-task-3", raw)
    ),
    "groups of a checkpoint task": Message(
        raw=encode_groups(GROUPS)[0][1], read=lambda raw: decode_groups(b"mm2-groups-1", raw)
    ),
    "session key": Message(
        raw=encode_session_key(SessionKey(secret=b"s", algorithm="HmacSHA256", created_ms=1)), read=decode_session_key
    ),
    "pauses": Message(raw=encode_pauses(Pauses(topics=frozenset({"orders"}))), read=decode_pauses),
    "fetch shares": Message(raw=encode_shares(FetchShares(1_000_000, {0: 700_000})), read=decode_shares),
    "config fingerprint": Message(
        raw=encode_fingerprint(ConfigFingerprint(node="n", digest="1-a", terms={"topics": ".*"})),
        read=decode_fingerprint,
    ),
    "command": Message(raw=encode_command(RestartTask(task="MirrorSourceConnector-0"), 1), read=command),
    "command for all tasks": Message(raw=encode_command(Refresh(), 1), read=command),
    "report on a source task": Message(raw=REPORT.value(), read=lambda raw: decode_report(REPORT.key(), raw)),
    "release of a source task": Message(raw=RELEASE.value(), read=lambda raw: decode_release(RELEASE.key(), raw)),
    "query": Message(raw=encode_query(QUERY)[1], read=query),
    "history of queries": Message(raw=encode_history(ORDERS, QueryHistory((ENTRY,)))[1], read=query_history),
    "report about queries": Message(
        raw=encode_query_uses(3, QUERY, [QueryUse(ORDERS, ENTRY, UUID(int=1))])[1], read=query_uses
    ),
    "recorded queries": by_pydantic(queries_response(Flow("A", "B"), QUERIES.histories, QUERIES.texts, None)),
    "loss": Message(raw=encode_loss(LOSS), read=lambda raw: decode_loss(encode_loss_key(LOSS), raw)),
    "recorded losses": by_pydantic(LossesResponse(flow="A->B", losses=(LOSS,))),
    "status of a task": Message(raw=encode_status(STATUS), read=decode_status),
    "use of a topic": Message(raw=encode_topic_use(USE), read=decode_topic_use),
    "member metadata": Message(raw=encode_member(MEMBER), read=decode_member),
    "answer of the leader": Message(raw=encode_answer(ANSWER), read=decode_answer, compressed=True),
    "rebalance on ZooKeeper": Message(raw=encode_round(ROUND), read=decode_round),
    "assignment": Message(raw=json.dumps(PLACEMENT.to_json()).encode(), read=placement),
    "status of a flow on a node": Message(raw=flows.SHARE.dump(node(), flow(members=(member(),))), read=status_share),
    "request for a lease": by_pydantic(LeaseRequest(token="t", nonce="n")),
    "lease": by_pydantic(GRANT),
    "progress of a lane": by_pydantic(said(7, 8)),
    "start of the engine": by_pydantic(START),
    "orders to the engine": by_pydantic(EngineOrders(version=1, lanes=(LaneStart(lane=0, token="t", description=""),))),
    "report of the engine": by_pydantic(ENGINE_REPORT),
}


def extended(value: Any, *, is_map: bool = False) -> Any:
    """Return JSON in which every object has another field."""
    if isinstance(value, list):
        return [extended(one) for one in value]
    if not isinstance(value, dict):
        return value
    fields = {name: extended(one, is_map=name in MAPS) for name, one in value.items()}
    return fields if is_map else {LATER: {"a": [1]}, **fields}


@pytest.mark.parametrize("message", [pytest.param(one, id=name) for name, one in MESSAGES.items()])
def test_unknown_fields_are_ignored(message: Message) -> None:
    raw = json.dumps(extended(json.loads(message.unpack()))).encode()
    assert LATER.encode() in raw
    expected = message.read(message.raw)
    assert expected is not None
    assert message.read(message.pack(raw)) == expected


def test_unknown_fields_of_groups_are_passed_on() -> None:
    raw = groups.SHARE.dump(node(), flow(groups=(group("billing"),)))
    later = raw.replace(b'"reason":', b'"later":1,"reason":').replace(b'"reasons":', b'"later":1,"reasons":')
    expected, found = (groups.SHARE.read(one, member("node-1")) for one in (raw, later))
    assert later.count(b"later") == 2
    assert found.reasons == expected.reasons
    assert json.loads(found.groups["billing"]) == json.loads(expected.groups["billing"]) | {"later": 1}


def record(offset: int, key: bytes | None, value: bytes | None) -> StoredRecord:
    return StoredRecord(partition=0, offset=offset, key=key, value=value, timestamp=0)


UNKNOWN = [
    (b"mm2-of-a-later-release-0", b"\x00\x01"),
    (b"mm2-of-a-later-release-0", None),
    (b"later", b"{}"),
    (None, b"1"),
]
"""Keys and values of records. All keys of ours begin with ``mm2-``, Java's do not."""


def test_unknown_records_of_the_status_topic_are_not_read() -> None:
    reports: list[SourceTaskReport] = []
    store = StatusStore(Flow("A", "B"), "mm2-status.A.internal", reports.append)
    records = [*UNKNOWN, (REPORT.key(), REPORT.value()), (RELEASE.key(), RELEASE.value())]
    for offset, (key, value) in enumerate(records):
        store.take(record(offset, key, value))
    assert reports == [REPORT]
    assert store.tasks() == {}
    assert store.skipped.count == 0, "they are not unreadable"


def test_unknown_records_of_the_config_topic_are_not_read(tmp_path: Path) -> None:
    changes: list[None] = []
    commands: list[bytes | None] = []
    store = ConfigStore(
        files.flow(tmp_path),
        unconnected_cluster(),
        on_change=lambda: changes.append(None),
        on_command=commands.append,
    )
    for offset, (key, value) in enumerate([*UNKNOWN, *encode_source_task(LIST)]):
        store._take(record(offset, key, value))
    assert store.source_tasks.records == {LIST.source_task: LIST}
    assert len(changes) == 1
    assert commands == []


def test_unknown_kinds_of_tasks_stay_in_the_assignment() -> None:
    """A node does not run them (tests/unit/node/flow/test_task_runners.py), and passes them on when it reports."""
    message = PLACEMENT.to_json()
    message["places"].append(["MirrorSchemaConnector-0", 0, 0, 7, 0, None, None])
    found = TaskAssignments.from_json(message)
    assert found is not None
    assert found.run("m") == (TaskId(TaskKind.SOURCE, 0), TaskId("MirrorSchemaConnector", 0))
    assert found.to_json() == message
    reported = replace(MEMBER, tasks=("MirrorSchemaConnector-0",), kinds=("MirrorSchemaConnector",))
    read = decode_member(encode_member(reported))
    assert read is not None
    assert (read.tasks, read.kinds) == (reported.tasks, reported.kinds)
