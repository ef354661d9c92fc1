"""The owner of each partition, from lists, assignment, pauses and reports of lanes."""

from __future__ import annotations

from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.assignment.task_placement import NO_MEMBER, TaskAssignments, TaskPlacement
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.core.coordination.pauses import Pauses
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.node.status.partition_ownership import HostedSourceTask, PartitionOwner, PartitionOwnership

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
RUNS, STOPPED = (TaskState.RUNNING, None), (TaskState.STOPPED, None)


def slot_list(source_task: int, *partitions: TopicPartition) -> SourceTaskRecord:
    return SourceTaskRecord(source_task=source_task, epoch=1, version=1, partitions=frozenset(partitions))


def hosted(source_task: int, *partitions: TopicPartition, **said: tuple[TaskState, str | None]) -> HostedSourceTask:
    """``said`` by names: T0 and so on."""
    names = {"T0": T0, "T1": T1, "U0": U0}
    states = {names[name]: state for name, state in said.items()}
    return HostedSourceTask(source_task=source_task, partitions=frozenset(partitions), states=states)


def placed(place: TaskPlacement) -> TaskAssignments:
    return TaskAssignments(epoch=1, places={TaskId(TaskKind.SOURCE, 0): place})


def test_own_partitions_wait_until_their_lane_reports() -> None:
    mine = PartitionOwnership(
        node_id="one", lists=(slot_list(3, T0),), hosted=(hosted(3, T0, T1, T0=(TaskState.FAILED, "no leader")),)
    )
    assert mine.partitions() == {
        T0: PartitionOwner(state=TaskState.FAILED, error="no leader", source_task=3, node="one"),
        T1: PartitionOwner(state=TaskState.WAITING, source_task=3, node="one"),
    }


def test_a_partition_moved_within_the_node_has_the_state_of_its_new_source_task() -> None:
    before, after = hosted(0, T0=STOPPED), hosted(1, T0, T0=RUNS)
    for source_tasks in ((before, after), (after, before)):
        ownership = PartitionOwnership(node_id="one", hosted=source_tasks)
        assert ownership.partitions() == {T0: PartitionOwner(state=TaskState.RUNNING, source_task=1, node="one")}


def test_a_pause_overrides_the_state_reported_by_the_lane() -> None:
    mine = PartitionOwnership(
        node_id="one",
        hosted=(hosted(0, T0, U0, T0=STOPPED, U0=RUNS),),
        pauses=Pauses(topics=frozenset({"t"})),
    )
    assert {one: where.state for one, where in mine.partitions().items()} == {
        T0: TaskState.PAUSED,
        U0: TaskState.RUNNING,
    }


def test_partitions_confirmed_by_another_node_run_there_unless_paused() -> None:
    elsewhere = PartitionOwnership(
        node_id="one",
        placement=placed(TaskPlacement(owner="m-2", node="two", since=1, home="two")),
        lists=(slot_list(0, T0, U0),),
        confirmed=frozenset({0}),
        pauses=Pauses(topics=frozenset({"u"})),
    )
    assert elsewhere.partitions() == {
        T0: PartitionOwner(state=TaskState.RUNNING, source_task=0, node="two"),
        U0: PartitionOwner(state=TaskState.PAUSED, source_task=0, node="two"),
    }


def test_partitions_without_a_known_owner_wait() -> None:
    given = TaskPlacement(owner="m-2", node="two", since=1, home="two")
    leaves = TaskPlacement(owner="m-2", node="two", since=1, home="two", next=NO_MEMBER)
    nobodys = TaskPlacement(owner=None, node="two", since=1, home="two")
    for place, confirmed, node in ((given, (), "two"), (leaves, (0,), "two"), (nobodys, (0,), "")):
        ownership = PartitionOwnership(
            node_id="one", placement=placed(place), lists=(slot_list(0, T0),), confirmed=frozenset(confirmed)
        )
        assert ownership.partitions() == {T0: PartitionOwner(state=TaskState.WAITING, source_task=0, node=node)}
    unplaced = PartitionOwnership(node_id="one", lists=(slot_list(0, T0),), confirmed=frozenset({0}))
    assert unplaced.partitions() == {T0: PartitionOwner(state=TaskState.WAITING, source_task=0)}


def test_own_partitions_by_topic_in_order() -> None:
    mine = PartitionOwnership(node_id="one", lists=(slot_list(7, T1),), hosted=(hosted(0, U0, T1), hosted(1, T0, T1)))
    assert list(mine.own().items()) == [("t", (0, 1)), ("u", (0,))]


def test_partitions_that_are_held_back_show_why_unless_paused() -> None:
    waits, failed = (TaskState.WAITING, "another query"), (TaskState.FAILED, "rejected")
    one = HostedSourceTask(
        source_task=4, partitions=frozenset({T0, T1, U0}), held_back={T0: waits, T1: failed, U0: failed}
    )
    mine = PartitionOwnership(node_id="one", hosted=(one,), pauses=Pauses(topics=frozenset({"u"})))
    assert mine.partitions() == {
        T0: PartitionOwner(state=waits[0], error=waits[1], source_task=4, node="one"),
        T1: PartitionOwner(state=failed[0], error=failed[1], source_task=4, node="one"),
        U0: PartitionOwner(state=TaskState.PAUSED, source_task=4, node="one"),
    }
    assert mine.reported() == frozenset(), "what a lane reported before is out of date"
