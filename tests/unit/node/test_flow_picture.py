"""What a node shows of a flow that several nodes share."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.core.client_settings import ClientSettings
from mm2.core.flow_terms import FlowTerms
from mm2.core.lease import TaskState
from mm2.core.names import TopicPartition
from mm2.core.placement import NOBODY, Place, Placement
from mm2.core.slot_records import SlotRecord
from mm2.core.tasks import TaskId, TaskKind
from mm2.election.protocol import Joined, MemberInfo
from mm2.kafka.cluster import Cluster
from mm2.node.checkpoint_tally import CheckpointTally
from mm2.node.config_topic import ConfigTopic
from mm2.node.flow_picture import FlowPicture, held_tasks
from mm2.node.leadership import Leadership
from mm2.node.progress import FlowProgress
from mm2.node.published import CoverageStatus
from mm2.node.status_book import StatusBook
from mm2.node.task_host import TaskHost
from tests.unit.config import files

SLOT, MOVING, LEFT = (TaskId(TaskKind.SOURCE, number) for number in range(3))
HEARTBEATS = TaskId(TaskKind.HEARTBEAT, 0)
PLACEMENT = Placement(
    epoch=3,
    places={
        SLOT: Place(owner="m-2", node="two", since=3, home="two"),
        MOVING: Place(owner="m-1", node="one", since=2, home="two", next="m-2"),
        LEFT: Place(owner="m-2", node="two", since=2, home="two", next=NOBODY),
        HEARTBEATS: Place(owner=None, node="three", since=1, home="three", until_ms=1),
    },
)


def info(node: str, *tasks: TaskId, capacity: int = 2, terms: str = "") -> MemberInfo:
    return MemberInfo(
        node_id=node, url=f"http://{node}", capacity=capacity, tasks=tuple(map(str, tasks)), terms=terms, version="1"
    )


def picture(directory: Path, members: dict[str, MemberInfo], *, leads: bool = False) -> FlowPicture:
    settings, cluster = files.flow(directory), Cluster(ClientSettings(bootstrap_servers=("localhost:1",)))
    configs = ConfigTopic(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
    for slot in (0, 1):
        partitions = frozenset({TopicPartition("t", slot)})
        configs.slots.records[slot] = SlotRecord(slot=slot, epoch=1, version=1, partitions=partitions)
    mine = FlowTerms(node="one", digest=members["m-1"].terms, terms={"tasks.max": "2", "topics": "x"})
    leading = Leadership(
        settings,
        generation=3,
        source=cluster,
        target=cluster,
        configs=configs,
        reports={},
        terms=lambda: mine,
        changed=lambda: None,
    )
    host = TaskHost(
        settings,
        slots=None,
        groups=configs.groups,
        offsets_partitions=1,
        node_id="one",
        tally=CheckpointTally(),
        changed=lambda: None,
    )
    return FlowPicture(
        settings=settings,
        node_id="one",
        joined=Joined(
            generation=3, member_id="m-1", leader_id="m-1" if leads else "m-2", members=members, assignment=None
        ),
        placement=PLACEMENT,
        configs=configs,
        book=StatusBook(settings.flow, "mm2-status.A.internal"),
        host=host,
        leading=leading if leads else None,
        progress=FlowProgress(),
        terms=mine if mine.digest else None,
    )


def test_members_with_what_they_were_given(tmp_path: Path) -> None:
    shown = picture(tmp_path, {"m-2": info("two", capacity=0), "m-1": info("one")}).members()
    assert [(one.node, one.leads, one.capacity, one.tasks, one.url) for one in shown] == [
        ("one", False, 2, (), "http://one"),
        ("two", True, 0, (str(SLOT),), "http://two"),
    ]


def test_only_who_leads_shows_what_others_run(tmp_path: Path) -> None:
    members = {"m-1": info("one"), "m-2": info("two")}
    follower = picture(tmp_path, members)
    assert (follower.tasks(), follower.topics(), follower.coverage([SLOT])) == ((), (), {})
    tasks = picture(tmp_path, members, leads=True).tasks()
    assert {(one.id, one.kind, one.node, one.state) for one in tasks} == {
        (str(SLOT), "source", "two", TaskState.WAITING),  # no status of it was read yet
        (str(MOVING), "source", "one", TaskState.WAITING),
        (str(LEFT), "source", "two", TaskState.WAITING),
        (str(HEARTBEATS), "heartbeat", "", TaskState.WAITING),
    }


def test_what_is_run_once_on_its_way_or_though_it_should_not_be(tmp_path: Path) -> None:
    members = {"m-1": info("one", MOVING), "m-2": info("two", SLOT, LEFT)}
    found = picture(tmp_path, members, leads=True).coverage([SLOT, MOVING, HEARTBEATS])
    assert found["tasks"] == CoverageStatus(covered=2, moving=1, stray=1)
    assert found["partitions"] == CoverageStatus(stray=2)  # nothing was discovered yet


def test_a_task_that_two_hold_or_nobody_is_counted(tmp_path: Path) -> None:
    members = {"m-1": info("one", SLOT), "m-2": info("two", SLOT)}
    lost = TaskId(TaskKind.SOURCE, 9)
    found = picture(tmp_path, members, leads=True).coverage([SLOT, lost])["tasks"]
    assert (found.doubled, found.uncovered) == (1, 1)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"m-1": info("one"), "m-2": info("two")}, []),
        (
            {"m-1": info("one", terms="1-aaaa"), "m-2": info("two", terms="1-bbbb")},
            [
                "one has another configuration for A->B than two, which leads: the files are not the same. What two"
                " says counts until another node leads"
            ],
        ),
        ({"m-1": info("one", terms="1-aaaa"), "m-2": info("two", terms="2-bbbb")}, []),
        ({"m-1": info("one", terms="1-aaaa"), "m-2": info("two")}, []),
        ({"m-1": info("one", terms="1-aaaa")}, []),
    ],
)
def test_about_files(tmp_path: Path, members: dict[str, MemberInfo], expected: list[str]) -> None:
    assert picture(tmp_path, members).about_files() == expected


def test_tasks_of_a_later_release_are_left_out() -> None:
    told = MemberInfo(node_id="one", url="", capacity=1, tasks=("MirrorSourceConnector-0", "MirrorOracle-1", "x"))
    assert held_tasks(told) == {SLOT}


def test_a_node_names_the_keys_that_its_leader_published_otherwise(tmp_path: Path) -> None:
    found = picture(tmp_path, {"m-1": info("one", terms="1-aaaa"), "m-2": info("two", terms="1-aaaa")})
    found.configs.terms = FlowTerms(node="two", digest="1-bbbb", terms={"tasks.max": "2", "topics": "y"})
    assert found.about_files() == [
        "one has another configuration for A->B than two, which leads: the files differ in topics. What two says counts"
        " until another node leads"
    ]
    found.configs.terms = FlowTerms(node="two", digest="1-aaaa", terms={})
    assert found.about_files() == []
    found.configs.terms = FlowTerms(node="three", digest="1-bbbb", terms={})  # led before
    assert found.about_files() == []


def test_a_leader_names_the_nodes_whose_files_say_something_else(tmp_path: Path) -> None:
    members = {"m-1": info("one", terms="1-aaaa"), "m-2": info("two", terms="1-bbbb"), "m-3": info("three")}
    assert picture(tmp_path, members, leads=True).about_files() == [
        "two has another configuration for A->B than one, which leads: the files are not the same. What one says counts"
        " until another node leads"
    ]
    agreed = members | {"m-2": info("two", terms="1-aaaa")}
    assert picture(tmp_path, agreed, leads=True).about_files() == []
