"""Reports of lanes are merged into one status, across moves and restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.assignment.task_placement import TaskAssignments, TaskPlacement
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.core.lanes.counters import HistogramTotals, PartitionCounters, SourceTaskCounters
from mm2.core.lanes.losses import Loss
from mm2.core.lanes.partition_steps import (
    EVENTS_KEPT,
    PartitionEvent,
    PartitionStory,
    RecentWaits,
    StepReport,
    Wait,
)
from mm2.core.lanes.progress_reports import PartitionProgress, SourceTaskProgress
from mm2.core.lanes.task_states import TaskState, worst
from mm2.core.naming.names import Flow, TopicPartition
from mm2.node.status.partition_ownership import NOWHERE, HostedSourceTask, PartitionOwner, PartitionOwnership
from mm2.node.status.progress import FORGET_AFTER_S, LOOK_FOR_DELETED_S, FlowProgress, ReplicatedTopic
from mm2.node.status.status_model import PartitionStatus, TopicStatus

TOPIC = ReplicatedTopic(topic="t", remote_topic="A.t", partitions=1)
PARTITION = TopicPartition("t", 0)
NOBODY = PartitionOwnership(node_id="n")


def here(
    *partitions: TopicPartition,
    source_task: int = 0,
    node: str = "n",
    state: TaskState = TaskState.RUNNING,
    error: str = "",
) -> PartitionOwnership:
    """A source task of this node runs them."""
    said = dict.fromkeys(partitions, (state, error or None))
    return PartitionOwnership(
        node_id=node, hosted=(HostedSourceTask(source_task=source_task, partitions=frozenset(said), states=said),)
    )


def said(source_task: int, state: TaskState, *, position: int, records: int) -> SourceTaskProgress:
    """A source task's report about the only partition."""
    partition = PartitionProgress(
        topic="t",
        partition=0,
        remote_topic="A.t",
        state=state,
        position=position,
        end_offset=100,
        counters=PartitionCounters(records=records),
    )
    return SourceTaskProgress(
        flow=Flow("A", "B"), source_task=source_task, epoch=1, state=TaskState.RUNNING, partitions=(partition,)
    )


def shown(progress: FlowProgress) -> PartitionStatus:
    ((partition,),) = (topic.partitions for topic in progress.topics([TOPIC], here(PARTITION)))
    return partition


def test_a_moved_partition_is_reported_by_its_new_source_task() -> None:
    """The old source task still reports the partition that it stopped, in the same lane and session."""
    progress = FlowProgress()
    progress.take("session", said(0, TaskState.RUNNING, position=40, records=40))
    progress.take("session", said(0, TaskState.STOPPED, position=50, records=50))
    for position in (60, 70):
        progress.take("session", said(1, TaskState.RUNNING, position=position, records=position - 50))
        progress.take("session", said(0, TaskState.STOPPED, position=50, records=50))
    assert shown(progress).position == 70
    assert shown(progress).counters.records == 70


def test_an_end_offset_that_was_not_observed_for_a_while_is_unknown() -> None:
    """(C) The last one, and the lag to it, are shown with their time."""
    progress = FlowProgress()
    fresh = said(0, TaskState.RUNNING, position=40, records=40)
    progress.take("session", fresh)
    before = shown(progress)
    assert (before.end_offset, before.lag_records, before.lag_seconds) == (100, 60, 0.0)
    assert (before.observed, before.last_end_offset, before.last_lag_records) == (None, None, None)
    stale = replace(fresh, partitions=(replace(fresh.partitions[0], end_observed=1_763_740_800.25),))
    progress.take("session", stale)
    now = shown(progress)
    assert (now.position, now.end_offset, now.lag_records, now.lag_seconds) == (40, None, None, None)
    assert (now.observed, now.last_end_offset, now.last_lag_records) == (1_763_740_800_250, 100, 60)
    assert not now.lag_known
    progress.take("session", fresh)
    assert shown(progress) == before


def test_a_partition_that_came_back_keeps_its_totals() -> None:
    progress = FlowProgress()
    progress.take("session", said(0, TaskState.STOPPED, position=50, records=50))
    progress.take("session", said(1, TaskState.STOPPED, position=50, records=0))
    progress.take("session", said(0, TaskState.RUNNING, position=55, records=5))
    assert (shown(progress).position, shown(progress).counters.records) == (55, 55)


def test_totals_survive_a_restart_of_the_lane() -> None:
    progress = FlowProgress()
    progress.take("first", said(0, TaskState.RUNNING, position=50, records=50))
    progress.take("second", said(0, TaskState.RUNNING, position=58, records=8))
    assert shown(progress).counters.records == 58


def test_rows_of_a_query_survive_a_restart_of_the_lane() -> None:
    progress = FlowProgress()
    for session, rows_in, rows_dropped in (("first", 100, 90), ("second", 10, 9), ("second", 20, 18)):
        report = said(0, TaskState.RUNNING, position=50, records=0)
        (partition,) = report.partitions
        changed = replace(partition, counters=PartitionCounters(rows_in=rows_in, rows_dropped=rows_dropped))
        progress.take(session, replace(report, partitions=(changed,)))
    assert (shown(progress).counters.rows_in, shown(progress).counters.rows_dropped) == (120, 108)


def test_an_unchanged_status_is_the_same_object() -> None:
    other = ReplicatedTopic(topic="u", remote_topic="A.u", partitions=1)
    progress = FlowProgress()

    def topics(ownership: PartitionOwnership) -> tuple[TopicStatus, ...]:
        return progress.topics([TOPIC, other], ownership)

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
    assert (partition.position, partition.counters.records, partition.node) == (41, 41, "n")
    elsewhere = topics(here(PARTITION, source_task=1))
    assert elsewhere[0].partitions[0].source_task == 1
    assert elsewhere[1].partitions[0] is moved[1].partitions[0]  # no report about it, and still no owner


def test_a_changed_topic_has_a_new_status() -> None:
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


def test_a_changed_partition_state_is_shown() -> None:
    """Also if its lane is gone and reports nothing more."""
    progress = FlowProgress()
    progress.take("session", said(0, TaskState.RUNNING, position=40, records=40))
    for ownership in (
        here(PARTITION),
        here(PARTITION, node="m"),
        here(PARTITION, source_task=1, state=TaskState.FAILED, error="no leader"),
        NOBODY,
    ):
        ((partition,),) = (topic.partitions for topic in progress.topics([TOPIC], ownership))
        where = ownership.partitions().get(PARTITION, NOWHERE)
        seen = PartitionOwner(
            state=partition.state, error=partition.error, source_task=partition.source_task, node=partition.node
        )
        assert (seen, partition.position) == (where, None if ownership is NOBODY else 40)


def test_the_worst_state_is_shown() -> None:
    assert worst([TaskState.RUNNING, TaskState.PAUSED, TaskState.FAILED]) is TaskState.FAILED
    assert worst([TaskState.STOPPED]) is TaskState.STOPPED
    assert worst([]) is TaskState.RUNNING
    assert worst([], TaskState.WAITING) is TaskState.WAITING


def test_topics_show_owners_and_unassigned_partitions_wait() -> None:
    progress = FlowProgress()
    progress.take("session", said(3, TaskState.RUNNING, position=40, records=40))
    topics = [
        ReplicatedTopic(topic="t", remote_topic="A.t", partitions=2),
        ReplicatedTopic(topic="u", remote_topic="A.u", partitions=0, error="it is away"),
    ]
    found, broken = progress.topics(topics, here(PARTITION, source_task=3, node="one"))
    assert [(one.state, one.source_task, one.node, one.lag_records) for one in found.partitions] == [
        (TaskState.RUNNING, 3, "one", 60),
        (TaskState.WAITING, None, "", None),
    ]
    assert found.state is TaskState.WAITING
    assert [one.lag_known for one in found.partitions] == [True, False]
    assert (broken.state, broken.error, broken.partitions) == (TaskState.FAILED, "it is away", ())


def test_a_share_has_the_partitions_of_one_node_and_no_others() -> None:
    failed = here(TopicPartition("t", 2), state=TaskState.FAILED, error="no")
    silent = HostedSourceTask(source_task=1, partitions=frozenset({TopicPartition("u", 1), TopicPartition("t", 5)}))
    ownership = replace(failed, hosted=(*failed.hosted, silent))
    first, second = FlowProgress().share(ownership, lambda topic: f"A.{topic}")
    assert (first.topic, first.remote_topic, first.state) == ("t", "A.t", TaskState.FAILED)
    assert [(one.partition, one.error) for one in first.partitions] == [(2, "no"), (5, None)]
    assert (second.topic, [one.partition for one in second.partitions]) == ("u", [1])


def silent(*partitions: TopicPartition, source_task: int = 0) -> PartitionOwnership:
    """A source task of this node whose lane has not reported yet, or has ended."""
    return PartitionOwnership(
        node_id="n", hosted=(HostedSourceTask(source_task=source_task, partitions=frozenset(partitions)),)
    )


def elsewhere(*partitions: TopicPartition, node: str = "") -> PartitionOwnership:
    """The partitions are in a published list, and this node does not run them."""
    place = TaskPlacement(owner=f"m-{node}" if node else None, node=node, since=1, home=node)
    return PartitionOwnership(
        node_id="n",
        placement=TaskAssignments(epoch=1, places={TaskId(TaskKind.SOURCE, 0): place}),
        lists=(SourceTaskRecord(source_task=0, epoch=1, version=1, partitions=frozenset(partitions)),),
        confirmed=frozenset({0}),
    )


@pytest.mark.parametrize("whereabouts", [elsewhere(PARTITION, node="m"), elsewhere(PARTITION), silent(PARTITION)])
def test_b_what_this_node_read_last_of_a_partition_is_not_its_progress(whereabouts: PartitionOwnership) -> None:
    """Another node copies it, none does, or its lane is gone: a lag of 0 then would hide what was written since."""
    progress = FlowProgress()
    progress.take("session", said(0, TaskState.RUNNING, position=100, records=100))
    assert (shown(progress).position, shown(progress).lag_records) == (100, 0)
    ((partition,),) = (topic.partitions for topic in progress.topics([TOPIC], whereabouts))
    assert (partition.position, partition.end_offset, partition.lag_records, partition.lag_seconds) == (None,) * 4
    assert partition.counters.records == 100


def test_b_progress_is_known_again_once_a_lane_reports_it() -> None:
    progress = FlowProgress()
    progress.take("session", said(0, TaskState.RUNNING, position=40, records=40))
    progress.topics([TOPIC], elsewhere(PARTITION, node="m"))
    progress.take("other", said(0, TaskState.RUNNING, position=70, records=5))
    assert (shown(progress).position, shown(progress).lag_records) == (70, 30)


def test_c_totals_do_not_decrease_when_partitions_move() -> None:
    progress = FlowProgress()
    progress.take("session", said(0, TaskState.RUNNING, position=40, records=40))
    progress.topics([TOPIC], elsewhere(PARTITION, node="m"))
    assert progress.records_total == 40
    progress.take("second", said(0, TaskState.RUNNING, position=8, records=8))
    assert (progress.records_total, progress.bytes_total) == (48, 0)


def test_what_other_nodes_run_is_listed_without_progress() -> None:
    progress = FlowProgress()
    progress.take("session", said(0, TaskState.RUNNING, position=40, records=40))
    whereabouts = elsewhere(PARTITION, TopicPartition("u", 3), node="m")
    t, u = progress.elsewhere(whereabouts, lambda topic: f"A.{topic}")
    assert (t.remote_topic, u.topic, u.partitions[0].partition, u.partitions[0].node) == ("A.t", "u", 3, "m")
    assert (t.partitions[0].counters.records, t.partitions[0].position, u.partitions[0].lag_records) == (40, None, None)
    assert progress.share(whereabouts, str) == ()
    again = progress.elsewhere(whereabouts, lambda topic: f"A.{topic}")
    assert [one is before for one, before in zip(again, (t, u), strict=True)] == [True, True]


def test_partitions_of_deleted_topics_are_forgotten() -> None:
    now = 0.0
    progress = FlowProgress(clock=lambda: now)
    for number in range(3):  # topics that are created, copied and deleted
        report = said(0, TaskState.RUNNING, position=40, records=40)
        (partition,) = report.partitions
        loss = Loss(
            topic=f"t{number}", partition=0, first=0, until=5, reason="retention was too short", kind="retention"
        )
        progress.take(
            f"session-{number}", replace(report, partitions=(replace(partition, topic=f"t{number}"),), losses=(loss,))
        )
        key = TopicPartition(f"t{number}", 0)
        topic = replace(TOPIC, topic=f"t{number}")
        (status,) = progress.topics([topic], here(key))
        assert status.partitions[0].counters.records == 40
        now += LOOK_FOR_DELETED_S
        progress.topics([], NOBODY)
        assert key in progress.losses.totals
        now += FORGET_AFTER_S
        progress.topics([], NOBODY)
        assert not progress.losses.totals
        (status,) = progress.topics([topic], NOBODY)
        assert status.partitions[0].counters.records == 0
    assert progress.records_total == 120, "the totals of the node still include them"


def test_a_partition_that_is_moving_keeps_its_totals() -> None:
    now = 0.0
    progress = FlowProgress(clock=lambda: now)
    progress.take("session", said(0, TaskState.RUNNING, position=40, records=40))
    for ownership in (here(PARTITION), NOBODY) * 200:
        now += LOOK_FOR_DELETED_S
        progress.topics([TOPIC], ownership)
    assert shown(progress).counters.records == 40


def told(*events: PartitionEvent, position: int = 40) -> SourceTaskProgress:
    """A report with these events, about a partition that is paused at its source."""
    report = said(0, TaskState.RUNNING, position=position, records=40)
    steps = replace(
        report.partitions[0],
        fetching=StepReport("PAUSED", 5.0, "broker 1 is not the leader"),
        sending=StepReport("IDLE", 4.0),
    )
    return replace(report, partitions=(steps,), events=events)


def test_events_are_kept_once_after_the_lane_has_died() -> None:
    """(D)"""
    first, second = PartitionEvent("t", 0, 5.0, "paused"), PartitionEvent("t", 0, 6.0, "resumed")
    progress = FlowProgress()
    progress.take("session", told(first))
    progress.take("session", told(first, second, position=41))
    assert shown(progress).step == "PAUSED"
    story = progress.story(PARTITION)
    assert (story.events, story.fetching) == ((first, second), StepReport("PAUSED", 5.0, "broker 1 is not the leader"))
    progress.topics([TOPIC], here(PARTITION, state=TaskState.STOPPED))
    after = progress.story(PARTITION)
    assert (after.events, after.fetching, after.sending) == ((first, second), None, None)
    assert progress.story(TopicPartition("t", 1)) == PartitionStory()


def test_the_newest_events_are_kept() -> None:
    """(D) A lane repeats all its events with each report."""
    events = [PartitionEvent("t", 0, float(number), str(number)) for number in range(EVENTS_KEPT + 5)]
    progress = FlowProgress()
    for position in (40, 41):
        progress.take("session", told(*events, position=position))
    assert progress.story(PARTITION).events == tuple(events[5:])


def test_events_of_a_deleted_topic_are_forgotten() -> None:
    now = 0.0
    progress = FlowProgress(lambda: now)
    progress.take("session", told(PartitionEvent("t", 0, 5.0, "paused")))
    for now in (LOOK_FOR_DELETED_S, LOOK_FOR_DELETED_S + FORGET_AFTER_S):  # noqa: B007 read by the clock
        progress.topics([], NOBODY)
    assert progress.story(PARTITION).events == ()


def counted(seconds: float) -> SourceTaskCounters:
    """What a lane has counted after ``seconds`` with one batch each."""
    return SourceTaskCounters(
        waits=(Wait(on="query", seconds=seconds),),
        source_throttled=seconds,
        latencies=HistogramTotals(counts=(int(seconds), *(0,) * 11), sum=seconds),
    )


def test_what_source_tasks_waited_for_never_decreases() -> None:
    """A lane that restarts, and another source task, start at 0."""
    progress = FlowProgress()
    report = said(0, TaskState.RUNNING, position=40, records=40)
    for session, source_task, seconds in (("one", 0, 5.0), ("one", 0, 7.0), ("two", 0, 1.0), ("two", 1, 2.0)):
        progress.take(session, replace(report, source_task=source_task, counters=counted(seconds)))
    assert progress.counters == SourceTaskCounters.of(counted(10.0).values)
    assert FlowProgress().counters == SourceTaskCounters.of(SourceTaskCounters().values)


def test_the_last_minute_is_that_of_lanes_that_report() -> None:
    progress = FlowProgress()
    waited = RecentWaits(waits=(Wait(on="query", seconds=3.0),), behind=3.0)
    report = replace(said(0, TaskState.RUNNING, position=40, records=40), last_minute=waited)
    progress.take("session", report)
    assert progress.last_minute(here(PARTITION)) == waited
    silent = PartitionOwnership(
        node_id="n", hosted=(HostedSourceTask(source_task=0, partitions=frozenset({PARTITION})),)
    )
    assert progress.last_minute(silent) is None
    assert progress.last_minute(here(PARTITION, source_task=1)) is None
