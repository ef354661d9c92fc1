"""The status that a node shows of a flow with several nodes."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.assignment.task_placement import NO_MEMBER, TaskAssignments, TaskPlacement
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.core.coordination.config_fingerprint import ConfigFingerprint
from mm2.core.coordination.query_uses import ReportedQueryUses
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.policies import DefaultReplicationPolicy
from mm2.core.settings.client import ClientSettings
from mm2.core.wire.status_records import ConnectState, Status, encode_status, task_key
from mm2.election.protocol import Joined, MemberInfo
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.node.flow.task_host import TaskHost
from mm2.node.flow.task_runner import STARTING
from mm2.node.leader.leader_term import LeaderTerm
from mm2.node.status.progress import FlowProgress
from mm2.node.status.status_builder import MOVES_WITHIN_S, StatusBuilder, held_tasks
from mm2.node.status.status_model import AssignmentAuditStatus
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.status_store import StatusStore
from tests.lab.tasks import task_context
from tests.lab.work import count_calls
from tests.unit.config import files

SLOT, MOVING, LEFT = (TaskId(TaskKind.SOURCE, number) for number in range(3))
HEARTBEATS = TaskId(TaskKind.HEARTBEAT, 0)
CHECKPOINTS, LATE = (TaskId(TaskKind.CHECKPOINT, number) for number in range(2))
PLACEMENT = TaskAssignments(
    epoch=3,
    places={
        SLOT: TaskPlacement(owner="m-2", node="two", since=3, home="two"),
        MOVING: TaskPlacement(owner="m-1", node="one", since=2, home="two", next="m-2"),
        LEFT: TaskPlacement(owner="m-2", node="two", since=2, home="two", next=NO_MEMBER),
        HEARTBEATS: TaskPlacement(owner=None, node="three", since=1, home="three", until_ms=1),
    },
)


def info(node: str, *tasks: TaskId, capacity: int = 2, terms: str = "") -> MemberInfo:
    return MemberInfo(
        node_id=node,
        url=f"http://{node}",
        capacity=capacity,
        kinds=TaskKind.ALL,
        tasks=tuple(map(str, tasks)),
        terms=terms,
        version="1",
    )


def picture(directory: Path, members: dict[str, MemberInfo], *, leads: bool = False) -> StatusBuilder:
    settings, cluster = files.flow(directory), Cluster(ClientSettings(bootstrap_servers=("localhost:1",)))
    configs = ConfigStore(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
    for source_task in (0, 1):
        partitions = frozenset({TopicPartition("t", source_task)})
        configs.source_tasks.records[source_task] = SourceTaskRecord(
            source_task=source_task, epoch=1, version=1, partitions=partitions
        )
    mine = ConfigFingerprint(node="one", digest=members["m-1"].terms, terms={"tasks.max": "2", "topics": "x"})
    leading = LeaderTerm(
        settings,
        generation=3,
        source=cluster,
        target=cluster,
        configs=configs,
        reports={},
        query_uses=ReportedQueryUses(),
        fingerprint=lambda: mine,
        changed=lambda: None,
    )
    host = TaskHost(task_context(settings, configs, cluster, node_id="one"), lambda: None)
    return StatusBuilder(
        settings=settings,
        node_id="one",
        joined=Joined(
            generation=3, member_id="m-1", leader_id="m-1" if leads else "m-2", members=members, assignment=None
        ),
        placement=PLACEMENT,
        configs=configs,
        statuses=StatusStore(settings.flow, "mm2-status.A.internal"),
        host=host,
        leading=leading if leads else None,
        progress=FlowProgress(),
        terms=mine if mine.digest else None,
    )


def test_members_with_their_assigned_tasks(tmp_path: Path) -> None:
    shown = picture(tmp_path, {"m-2": info("two", capacity=0), "m-1": info("one")}).members()
    assert [(one.node, one.leads, one.capacity, one.tasks, one.url) for one in shown] == [
        ("one", False, 2, (), "http://one"),
        ("two", True, 0, (str(SLOT),), "http://two"),
    ]


def test_only_the_leader_shows_tasks_of_other_nodes(tmp_path: Path) -> None:
    members = {"m-1": info("one"), "m-2": info("two")}
    follower = picture(tmp_path, members)
    assert (follower.tasks(), follower.topics(), follower.assignment_audit([SLOT])) == ((), (), {})
    tasks = picture(tmp_path, members, leads=True).tasks()
    assert {(one.id, one.kind, one.node, one.error) for one in tasks} == {
        (str(SLOT), "source", "two", None),  # its status has not been read yet
        (str(MOVING), "source", "one", "moves to node two as soon as node one has released it"),
        (str(LEFT), "source", "two", "ends as soon as node two has released it"),
        (str(HEARTBEATS), "heartbeat", "", None),
    }
    assert {one.state for one in tasks} == {TaskState.WAITING}


def at_node_two(after: str | None = None) -> TaskPlacement:
    return TaskPlacement(owner="m-2", node="two", since=3, home="two", next=after)


def test_only_checkpoint_and_heartbeat_tasks_only_move_and_not_for_long(tmp_path: Path) -> None:
    """The flow stays RUNNING meanwhile, as no records wait for them."""
    leader = picture(tmp_path, {"m-1": info("one"), "m-2": info("two")}, leads=True)
    now = time.monotonic()
    places = {SLOT: at_node_two("m-1"), HEARTBEATS: at_node_two("m-1"), CHECKPOINTS: at_node_two(), LATE: at_node_two()}
    leader = replace(
        leader,
        placement=TaskAssignments(epoch=4, places=places),
        moved_at={SLOT: now, HEARTBEATS: now, CHECKPOINTS: now, LATE: now - MOVES_WITHIN_S},
    )
    assert {one.id: one.only_moves for one in leader.tasks()} == {
        str(SLOT): False,
        str(HEARTBEATS): True,
        str(CHECKPOINTS): True,  # assigned to node two, which has not reported yet that it runs
        str(LATE): False,
    }
    reported = encode_status(Status(state=ConnectState.FAILED, worker_id="host/two", generation=3, trace="why"))
    key = task_key(str(CHECKPOINTS))
    leader.statuses.take(StoredRecord(partition=0, offset=0, key=key, value=reported, timestamp=0))
    assert {one.id for one in leader.tasks() if one.only_moves} == {str(HEARTBEATS)}
    lost = replace(at_node_two(), owner=None, until_ms=1)
    leader = replace(leader, placement=TaskAssignments(epoch=5, places={HEARTBEATS: lost}))
    assert not any(one.only_moves for one in leader.tasks())


async def test_a_task_that_came_from_another_node_only_moves_until_it_has_started(tmp_path: Path) -> None:
    node = replace(picture(tmp_path, {"m-1": info("one")}), moved_at={CHECKPOINTS: time.monotonic()})
    node.host.take(TaskAssignments(epoch=4, places={CHECKPOINTS: replace(at_node_two(), owner="m-1")}), "m-1")
    try:
        assert [(one.state, one.error, one.only_moves) for one in node.tasks()] == [(TaskState.WAITING, STARTING, True)]
        assert [one.only_moves for one in replace(node, moved_at={}).tasks()] == [False]
    finally:
        await node.host.close()


def test_assigned_moving_and_unexpected_are_counted(tmp_path: Path) -> None:
    members = {"m-1": info("one", MOVING), "m-2": info("two", SLOT, LEFT)}
    found = picture(tmp_path, members, leads=True).assignment_audit([SLOT, MOVING, HEARTBEATS])
    assert found["tasks"] == AssignmentAuditStatus(assigned=2, moving=1, unexpected=1)
    assert found["partitions"] == AssignmentAuditStatus(assigned=2)  # as listed: nothing was discovered yet


def test_duplicated_and_unassigned_tasks_are_counted(tmp_path: Path) -> None:
    members = {"m-1": info("one", SLOT), "m-2": info("two", SLOT)}
    lost = TaskId(TaskKind.SOURCE, 9)
    found = picture(tmp_path, members, leads=True).assignment_audit([SLOT, lost])["tasks"]
    assert (found.duplicated, found.unassigned) == (1, 1)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"m-1": info("one"), "m-2": info("two")}, []),
        (
            {"m-1": info("one", terms="1-aaaa"), "m-2": info("two", terms="1-bbbb")},
            [
                "one has a different configuration than leader two; the configuration of two applies until"
                " another node becomes leader"
            ],
        ),
        ({"m-1": info("one", terms="1-aaaa"), "m-2": info("two", terms="2-bbbb")}, []),
        ({"m-1": info("one", terms="1-aaaa"), "m-2": info("two")}, []),
        ({"m-1": info("one", terms="1-aaaa")}, []),
    ],
)
def test_about_files(tmp_path: Path, members: dict[str, MemberInfo], expected: list[str]) -> None:
    assert picture(tmp_path, members).about_files() == expected


@pytest.mark.parametrize(
    ("mine", "others", "leads", "differs"),
    [
        ("1-aaaa", ["1-aaaa"], False, False),
        ("1-aaaa", ["1-bbbb"], False, True),
        ("1-aaaa", ["2-bbbb"], False, None),  # during an upgrade
        ("1-aaaa", [""], False, None),
        ("", ["1-bbbb"], False, None),
        ("1-aaaa", [], True, False),
        ("1-aaaa", ["1-aaaa", "1-bbbb"], True, True),
        ("1-aaaa", ["", "1-bbbb"], True, True),
        ("1-aaaa", ["", "1-aaaa"], True, None),
        ("1-aaaa", ["1-aaaa", "1-aaaa"], True, False),
    ],
)
def test_whether_files_differ(tmp_path: Path, mine: str, others: list[str], leads: bool, differs: bool | None) -> None:
    members = {"m-1": info("one", terms=mine)}
    members |= {f"m-{number}": info(f"n{number}", terms=terms) for number, terms in enumerate(others, 2)}
    assert picture(tmp_path, members, leads=leads).config_differs() is differs


def test_the_newest_fingerprint_of_the_leader_counts(tmp_path: Path) -> None:
    """It is published before the next rebalance, by which the other nodes hear of each other's."""
    found = picture(tmp_path, {"m-1": info("one", terms="1-aaaa"), "m-2": info("two", terms="1-bbbb")})
    found.configs.terms = ConfigFingerprint(node="two", digest="1-aaaa", terms={})
    assert found.config_differs() is False
    found.configs.terms = ConfigFingerprint(node="three", digest="1-aaaa", terms={})  # an earlier leader
    assert found.config_differs() is True
    assert found.left_selection() is None, "only the leader knows it"


def test_held_tasks_include_kinds_of_a_later_release() -> None:
    reported = MemberInfo(
        node_id="one", url="", capacity=1, kinds=(), tasks=("MirrorSourceConnector-0", "MirrorOracle-1", "x")
    )
    assert held_tasks(reported) == {SLOT, TaskId("MirrorOracle", 1)}


def test_a_node_names_the_keys_that_differ_from_the_leaders(tmp_path: Path) -> None:
    found = picture(tmp_path, {"m-1": info("one", terms="1-aaaa"), "m-2": info("two", terms="1-aaaa")})
    found.configs.terms = ConfigFingerprint(node="two", digest="1-bbbb", terms={"tasks.max": "2", "topics": "y"})
    assert found.about_files() == [
        "one has a different configuration than leader two (differing keys: topics); the configuration of two"
        " applies until another node becomes leader"
    ]
    found.configs.terms = ConfigFingerprint(node="two", digest="1-aaaa", terms={})
    assert found.about_files() == []
    found.configs.terms = ConfigFingerprint(node="three", digest="1-bbbb", terms={})  # an earlier leader
    assert found.about_files() == []


def test_a_leader_names_the_nodes_whose_files_differ(tmp_path: Path) -> None:
    members = {"m-1": info("one", terms="1-aaaa"), "m-2": info("two", terms="1-bbbb"), "m-3": info("three")}
    assert picture(tmp_path, members, leads=True).about_files() == [
        "two has a different configuration than leader one; the configuration of one applies until another"
        " node becomes leader"
    ]
    agreed = members | {"m-2": info("two", terms="1-aaaa")}
    assert picture(tmp_path, agreed, leads=True).about_files() == []


def calls_of_tasks(tmp_path: Path, tasks: int) -> int:
    """Return the calls that the leader needs to show this number of tasks of another node."""
    leader = picture(tmp_path, {"m-1": info("one"), "m-2": info("two")}, leads=True)
    places = {
        TaskId(TaskKind.SOURCE, number): TaskPlacement(owner="m-2", node="two", since=3, home="two")
        for number in range(tasks)
    }
    for offset, task in enumerate(places):
        value = encode_status(Status(state=ConnectState.RUNNING, worker_id="host/two", generation=3))
        record = StoredRecord(partition=0, offset=offset, key=task_key(str(task)), value=value, timestamp=0)
        leader.statuses.take(record)
    leader = replace(leader, placement=TaskAssignments(epoch=3, places=places))
    assert {one.state for one in leader.tasks()} == {TaskState.RUNNING}
    return count_calls(leader.tasks)


def test_the_work_for_tasks_of_other_nodes_grows_linearly(tmp_path: Path) -> None:
    assert calls_of_tasks(tmp_path, 400) < 5 * calls_of_tasks(tmp_path, 100)


class FailingPolicy(DefaultReplicationPolicy):
    def format_remote_topic(self, alias: str, topic: str) -> str:
        raise ValueError("not today")


def test_a_topic_that_the_policy_cannot_name_is_shown_with_its_own_name(tmp_path: Path) -> None:
    follower = picture(tmp_path, {"m-1": info("one"), "m-2": info("two")})
    settings = files.flow(tmp_path, f"replication.policy.class = {__name__}:{FailingPolicy.__name__}\n")
    (topic,) = replace(follower, settings=settings).elsewhere()
    assert (topic.topic, topic.remote_topic) == ("t", "t")


def test_a_remote_topic_is_shown_with_the_alias_of_the_file(tmp_path: Path) -> None:
    follower = picture(tmp_path, {"m-1": info("one"), "m-2": info("two")})
    (topic,) = replace(follower, settings=files.flow(tmp_path, "source.cluster.alias = eu\n")).elsewhere()
    assert (topic.topic, topic.remote_topic) == ("t", "eu.t")


QUERY = "mm2.sql.drop.topics = t\nmm2.sql.drop.query = SELECT * FROM records WHERE offset > 3\n"


class PolicyWithoutHeartbeats(DefaultReplicationPolicy):
    def is_heartbeats_topic(self, topic: str) -> bool:
        raise ValueError("not today")


def test_query_of_a_topic(tmp_path: Path) -> None:
    follower = picture(tmp_path, {"m-1": info("one"), "m-2": info("two")})
    (plain,) = follower.elsewhere()
    assert plain.query is None
    (topic,) = replace(follower, settings=files.flow(tmp_path, QUERY)).elsewhere()
    assert topic.query == "drop"
    policy = f"replication.policy.class = {__name__}:{PolicyWithoutHeartbeats.__name__}\n"
    (unknown,) = replace(follower, settings=files.flow(tmp_path, QUERY + policy)).elsewhere()
    assert unknown.query is None
