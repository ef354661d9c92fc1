"""Reports of lanes become one picture, whatever moves and restarts in between."""

from __future__ import annotations

from mm2.core.lease import PartitionProgress, SlotProgress, TaskState
from mm2.core.names import Flow, TopicPartition
from mm2.core.task_states import worst
from mm2.node.progress import FlowProgress, ReplicatedTopic, Where
from mm2.node.published import PartitionStatus

TOPIC = ReplicatedTopic(topic="t", remote_topic="A.t", partitions=1)


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
    ((partition,),) = (topic.partitions for topic in progress.topics([TOPIC], {}))
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


def test_a_partition_without_news_is_the_same_object() -> None:
    progress = FlowProgress()
    where = {TopicPartition("t", 0): Where(state=TaskState.RUNNING, slot=0, node="n")}
    report = said(0, TaskState.RUNNING, position=40, records=40)
    progress.take("session", report)
    ((first,),) = (topic.partitions for topic in progress.topics([TOPIC], where))
    progress.take("session", report)
    ((again,),) = (topic.partitions for topic in progress.topics([TOPIC], dict(where)))
    assert again is first
    progress.take("session", said(0, TaskState.RUNNING, position=41, records=41))
    ((later,),) = (topic.partitions for topic in progress.topics([TOPIC], where))
    assert (later.position, later.records_total, later.node) == (41, 41, "n")


def test_a_partition_whose_state_changed_shows_it() -> None:
    """Its lane may be gone, and say nothing more."""
    progress = FlowProgress()
    progress.take("session", said(0, TaskState.RUNNING, position=40, records=40))
    for where in (
        Where(state=TaskState.RUNNING, slot=0, node="n"),
        Where(state=TaskState.RUNNING, slot=0, node="m"),
        Where(state=TaskState.FAILED, error="no leader", slot=1, node="m"),
    ):
        ((partition,),) = (topic.partitions for topic in progress.topics([TOPIC], {TopicPartition("t", 0): where}))
        seen = Where(state=partition.state, error=partition.error, slot=partition.slot, node=partition.node)
        assert (seen, partition.position) == (where, 40)
    ((partition,),) = (topic.partitions for topic in progress.topics([TOPIC], {}))
    assert (partition.state, partition.position) == (TaskState.WAITING, 40)


def test_the_worst_state_is_shown() -> None:
    assert worst([TaskState.RUNNING, TaskState.PAUSED, TaskState.FAILED]) is TaskState.FAILED
    assert worst([TaskState.STOPPED]) is TaskState.STOPPED
    assert worst([]) is TaskState.RUNNING
    assert worst([], TaskState.WAITING) is TaskState.WAITING


def test_topics_show_who_runs_each_partition_and_the_others_wait() -> None:
    progress = FlowProgress()
    progress.take("session", said(3, TaskState.RUNNING, position=40, records=40))
    where = {TopicPartition("t", 0): Where(state=TaskState.RUNNING, slot=3, node="one")}
    topics = [
        ReplicatedTopic(topic="t", remote_topic="A.t", partitions=2),
        ReplicatedTopic(topic="u", remote_topic="A.u", partitions=0, error="it is away"),
    ]
    found, broken = progress.topics(topics, where)
    assert [(one.state, one.slot, one.node, one.lag_records) for one in found.partitions] == [
        (TaskState.RUNNING, 3, "one", 60),
        (TaskState.WAITING, None, "", 0),
    ]
    assert found.state is TaskState.WAITING
    assert [one.lag_known for one in found.partitions] == [True, False]
    assert (broken.state, broken.error, broken.partitions) == (TaskState.FAILED, "it is away", ())


def test_a_share_has_the_partitions_of_one_node_and_no_others() -> None:
    own = [TopicPartition("u", 1), TopicPartition("t", 5), TopicPartition("t", 2)]
    where = {TopicPartition("t", 2): Where(state=TaskState.FAILED, error="no", slot=0, node="one")}
    first, second = FlowProgress().share(own, lambda topic: f"A.{topic}", where)
    assert (first.topic, first.remote_topic, first.state) == ("t", "A.t", TaskState.FAILED)
    assert [(one.partition, one.error) for one in first.partitions] == [(2, "no"), (5, None)]
    assert (second.topic, [one.partition for one in second.partitions]) == ("u", [1])
