"""Reports of lanes become one picture, whatever moves and restarts in between."""

from __future__ import annotations

from dataclasses import replace

from mm2.core.lease import PartitionProgress, SlotProgress, TaskState
from mm2.core.names import Flow, TopicPartition
from mm2.core.task_states import worst
from mm2.node.progress import FlowProgress, ReplicatedTopic
from mm2.node.published import PartitionStatus, TopicStatus
from mm2.node.whereabouts import NOWHERE, HostedSlot, Where, Whereabouts

TOPIC = ReplicatedTopic(topic="t", remote_topic="A.t", partitions=1)
PARTITION = TopicPartition("t", 0)
NOBODY = Whereabouts(node_id="n")


def here(
    *partitions: TopicPartition, slot: int = 0, node: str = "n", state: TaskState = TaskState.RUNNING, error: str = ""
) -> Whereabouts:
    """A slot of this node runs them."""
    said = dict.fromkeys(partitions, (state, error or None))
    return Whereabouts(node_id=node, hosted=(HostedSlot(slot=slot, partitions=frozenset(said), states=said),))


def said(slot: int, state: TaskState, *, position: int, records: int) -> SlotProgress:
    """A slot's report about the only partition."""
    partition = PartitionProgress(
        topic="t",
        partition=0,
        remote_topic="A.t",
        state=state,
        position=position,
        end_offset=100,
        records_total=records,
    )
    return SlotProgress(flow=Flow("A", "B"), slot=slot, epoch=1, state=TaskState.RUNNING, partitions=(partition,))


def shown(progress: FlowProgress) -> PartitionStatus:
    ((partition,),) = (topic.partitions for topic in progress.topics([TOPIC], NOBODY))
    return partition


def test_a_partition_that_moved_is_the_new_slots_to_tell() -> None:
    """The old slot goes on showing what it stopped, in the same lane and session."""
    progress = FlowProgress()
    progress.take("session", said(0, TaskState.RUNNING, position=40, records=40))
    progress.take("session", said(0, TaskState.STOPPED, position=50, records=50))
    for position in (60, 70):
        progress.take("session", said(1, TaskState.RUNNING, position=position, records=position - 50))
        progress.take("session", said(0, TaskState.STOPPED, position=50, records=50))
    assert shown(progress).position == 70
    assert shown(progress).records_total == 70


def test_a_partition_that_came_back_counts_on() -> None:
    progress = FlowProgress()
    progress.take("session", said(0, TaskState.STOPPED, position=50, records=50))
    progress.take("session", said(1, TaskState.STOPPED, position=50, records=0))
    progress.take("session", said(0, TaskState.RUNNING, position=55, records=5))
    assert (shown(progress).position, shown(progress).records_total) == (55, 55)


def test_totals_survive_a_lane_that_starts_again() -> None:
    progress = FlowProgress()
    progress.take("first", said(0, TaskState.RUNNING, position=50, records=50))
    progress.take("second", said(0, TaskState.RUNNING, position=58, records=8))
    assert shown(progress).records_total == 58


def test_what_has_no_news_is_the_same_object() -> None:
    other = ReplicatedTopic(topic="u", remote_topic="A.u", partitions=1)
    progress = FlowProgress()

    def topics(whereabouts: Whereabouts) -> tuple[TopicStatus, ...]:
        return progress.topics([TOPIC, other], whereabouts)

    report = said(0, TaskState.RUNNING, position=40, records=40)
    progress.take("session", report)
    first = topics(here(PARTITION))
    progress.take("session", report)
    again = topics(here(PARTITION))
    assert [one is before for one, before in zip(again, first, strict=True)] == [True, True]
    progress.take("session", said(0, TaskState.RUNNING, position=41, records=41))
    moved = topics(here(PARTITION))
    assert [one is before for one, before in zip(moved, first, strict=True)] == [False, True]
    (partition,) = moved[0].partitions
    assert (partition.position, partition.records_total, partition.node) == (41, 41, "n")
    elsewhere = topics(here(PARTITION, slot=1))
    assert elsewhere[0].partitions[0].slot == 1
    assert elsewhere[1].partitions[0] is moved[1].partitions[0]  # nothing was said of it, and nobody runs it still


def test_a_topic_that_is_another_shows_it() -> None:
    progress = FlowProgress()
    for topic in (
        TOPIC,
        ReplicatedTopic(topic="t", remote_topic="A.t", partitions=2),
        ReplicatedTopic(topic="t", remote_topic="A.t", partitions=2, error="it is away"),
        ReplicatedTopic(topic="t", remote_topic="t", partitions=2),
    ):
        (status,) = progress.topics([topic], NOBODY)
        shown = (status.topic, status.remote_topic, len(status.partitions), status.error)
        assert shown == (topic.topic, topic.remote_topic, topic.partitions, topic.error)


def test_a_partition_whose_state_changed_shows_it() -> None:
    """Its lane may be gone, and say nothing more."""
    progress = FlowProgress()
    progress.take("session", said(0, TaskState.RUNNING, position=40, records=40))
    for whereabouts in (
        here(PARTITION),
        here(PARTITION, node="m"),
        here(PARTITION, slot=1, state=TaskState.FAILED, error="no leader"),
        NOBODY,
    ):
        ((partition,),) = (topic.partitions for topic in progress.topics([TOPIC], whereabouts))
        where = whereabouts.partitions().get(PARTITION, NOWHERE)
        seen = Where(state=partition.state, error=partition.error, slot=partition.slot, node=partition.node)
        assert (seen, partition.position) == (where, 40)


def test_the_worst_state_is_shown() -> None:
    assert worst([TaskState.RUNNING, TaskState.PAUSED, TaskState.FAILED]) is TaskState.FAILED
    assert worst([TaskState.STOPPED]) is TaskState.STOPPED
    assert worst([]) is TaskState.RUNNING
    assert worst([], TaskState.WAITING) is TaskState.WAITING


def test_topics_show_who_runs_each_partition_and_the_others_wait() -> None:
    progress = FlowProgress()
    progress.take("session", said(3, TaskState.RUNNING, position=40, records=40))
    topics = [
        ReplicatedTopic(topic="t", remote_topic="A.t", partitions=2),
        ReplicatedTopic(topic="u", remote_topic="A.u", partitions=0, error="it is away"),
    ]
    found, broken = progress.topics(topics, here(PARTITION, slot=3, node="one"))
    assert [(one.state, one.slot, one.node, one.lag_records) for one in found.partitions] == [
        (TaskState.RUNNING, 3, "one", 60),
        (TaskState.WAITING, None, "", 0),
    ]
    assert found.state is TaskState.WAITING
    assert [one.lag_known for one in found.partitions] == [True, False]
    assert (broken.state, broken.error, broken.partitions) == (TaskState.FAILED, "it is away", ())


def test_a_share_has_the_partitions_of_one_node_and_no_others() -> None:
    failed = here(TopicPartition("t", 2), state=TaskState.FAILED, error="no")
    silent = HostedSlot(slot=1, partitions=frozenset({TopicPartition("u", 1), TopicPartition("t", 5)}))
    whereabouts = replace(failed, hosted=(*failed.hosted, silent))
    first, second = FlowProgress().share(whereabouts, lambda topic: f"A.{topic}")
    assert (first.topic, first.remote_topic, first.state) == ("t", "A.t", TaskState.FAILED)
    assert [(one.partition, one.error) for one in first.partitions] == [(2, "no"), (5, None)]
    assert (second.topic, [one.partition for one in second.partitions]) == ("u", [1])
