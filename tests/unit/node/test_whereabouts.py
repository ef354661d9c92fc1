"""Who runs each partition, from lists, placement, pauses and what lanes say."""

from __future__ import annotations

from mm2.core.lease import TaskState
from mm2.core.names import TopicPartition
from mm2.core.pauses import Pauses
from mm2.core.placement import NOBODY, Place, Placement
from mm2.core.slot_records import SlotRecord
from mm2.core.tasks import TaskId, TaskKind
from mm2.node.whereabouts import HostedSlot, Where, Whereabouts

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
RUNS, STOPPED = (TaskState.RUNNING, None), (TaskState.STOPPED, None)


def slot_list(slot: int, *partitions: TopicPartition) -> SlotRecord:
    return SlotRecord(slot=slot, epoch=1, version=1, partitions=frozenset(partitions))


def hosted(slot: int, *partitions: TopicPartition, **said: tuple[TaskState, str | None]) -> HostedSlot:
    """``said`` by names: T0 and so on."""
    names = {"T0": T0, "T1": T1, "U0": U0}
    states = {names[name]: state for name, state in said.items()}
    return HostedSlot(slot=slot, partitions=frozenset(partitions), states=states)


def placed(place: Place) -> Placement:
    return Placement(epoch=1, places={TaskId(TaskKind.SOURCE, 0): place})


def test_own_partitions_are_as_their_lanes_say_and_wait_until_they_do() -> None:
    mine = Whereabouts(
        node_id="one", lists=(slot_list(3, T0),), hosted=(hosted(3, T0, T1, T0=(TaskState.FAILED, "no leader")),)
    )
    assert mine.partitions() == {
        T0: Where(state=TaskState.FAILED, error="no leader", slot=3, node="one"),
        T1: Where(state=TaskState.WAITING, slot=3, node="one"),
    }


def test_a_partition_that_moved_within_the_node_is_as_the_slot_that_runs_it_says() -> None:
    before, after = hosted(0, T0=STOPPED), hosted(1, T0, T0=RUNS)
    for slots in ((before, after), (after, before)):
        whereabouts = Whereabouts(node_id="one", hosted=slots)
        assert whereabouts.partitions() == {T0: Where(state=TaskState.RUNNING, slot=1, node="one")}


def test_what_is_paused_is_paused_whatever_its_lane_says() -> None:
    mine = Whereabouts(
        node_id="one",
        hosted=(hosted(0, T0, U0, T0=STOPPED, U0=RUNS),),
        pauses=Pauses(topics=frozenset({"t"})),
    )
    assert {one: where.state for one, where in mine.partitions().items()} == {
        T0: TaskState.PAUSED,
        U0: TaskState.RUNNING,
    }


def test_what_another_node_has_taken_in_runs_there_unless_it_is_paused() -> None:
    elsewhere = Whereabouts(
        node_id="one",
        placement=placed(Place(owner="m-2", node="two", since=1, home="two")),
        lists=(slot_list(0, T0, U0),),
        confirmed=frozenset({0}),
        pauses=Pauses(topics=frozenset({"u"})),
    )
    assert elsewhere.partitions() == {
        T0: Where(state=TaskState.RUNNING, slot=0, node="two"),
        U0: Where(state=TaskState.PAUSED, slot=0, node="two"),
    }


def test_what_nobody_is_known_to_run_waits() -> None:
    given = Place(owner="m-2", node="two", since=1, home="two")
    leaves = Place(owner="m-2", node="two", since=1, home="two", next=NOBODY)
    nobodys = Place(owner=None, node="two", since=1, home="two")
    for place, confirmed, node in ((given, (), "two"), (leaves, (0,), "two"), (nobodys, (0,), "")):
        whereabouts = Whereabouts(
            node_id="one", placement=placed(place), lists=(slot_list(0, T0),), confirmed=frozenset(confirmed)
        )
        assert whereabouts.partitions() == {T0: Where(state=TaskState.WAITING, slot=0, node=node)}
    unplaced = Whereabouts(node_id="one", lists=(slot_list(0, T0),), confirmed=frozenset({0}))
    assert unplaced.partitions() == {T0: Where(state=TaskState.WAITING, slot=0)}


def test_own_partitions_by_topic_in_order() -> None:
    mine = Whereabouts(node_id="one", lists=(slot_list(7, T1),), hosted=(hosted(0, U0, T1), hosted(1, T0, T1)))
    assert list(mine.own().items()) == [("t", (0, 1)), ("u", (0,))]
