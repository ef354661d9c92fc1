"""Tests of `mm2.core.lanes.accumulated_progress`: incremental reports carry the same information as full ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.lanes.accumulated_progress import EVENTS_OF_TASK, AccumulatedProgress
from mm2.core.lanes.partition_steps import PartitionEvent
from mm2.core.lanes.progress_reports import PartitionProgress, SourceTaskProgress
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow, TopicPartition

ORDERS = [TopicPartition("orders", number) for number in range(3)]


def partition_report(
    partition: TopicPartition, position: int = 0, state: TaskState = TaskState.RUNNING
) -> PartitionProgress:
    return PartitionProgress(
        topic=partition.topic,
        partition=partition.partition,
        remote_topic=f"A.{partition.topic}",
        state=state,
        position=position,
    )


def report(*partitions: PartitionProgress, whole: bool = True, error: str | None = None) -> SourceTaskProgress:
    return SourceTaskProgress(
        flow=Flow("A", "B"),
        source_task=1,
        epoch=7,
        state=TaskState.RUNNING,
        error=error,
        partitions=partitions,
        whole=whole,
    )


FIRST = report(*map(partition_report, ORDERS))


def test_omitted_partitions_keep_their_state() -> None:
    """(A), (B)"""
    accumulated = AccumulatedProgress(FIRST)
    assert accumulated.take(report(partition_report(ORDERS[1], 5), whole=False))
    assert accumulated.progress == report(
        partition_report(ORDERS[0]), partition_report(ORDERS[1], 5), partition_report(ORDERS[2])
    )
    assert accumulated.progress.partitions[0] is FIRST.partitions[0]
    assert accumulated.progress.partitions[2] is FIRST.partitions[2]


@pytest.mark.parametrize("whole", [False, True])
def test_unchanged_progress_is_the_same_object(whole: bool) -> None:
    """(B), also after it: omitted values keep their previous state."""
    accumulated = AccumulatedProgress(FIRST)
    again = report(*map(partition_report, ORDERS), whole=True) if whole else report(whole=False)
    assert not accumulated.take(again)
    assert accumulated.progress is FIRST
    assert accumulated.take(report(partition_report(ORDERS[1], 5), whole=False))
    assert accumulated.progress.partitions[0] is FIRST.partitions[0]


def test_repeated_reports_change_nothing() -> None:
    """The response was lost, and the lane sends the report again."""
    accumulated = AccumulatedProgress(FIRST)
    changed = report(partition_report(ORDERS[0], 9), whole=False)
    assert accumulated.take(changed)
    assert not accumulated.take(changed)


def test_changes_of_the_source_task_only() -> None:
    accumulated = AccumulatedProgress(FIRST)
    assert accumulated.take(report(whole=False, error="no leader"))
    assert accumulated.progress == replace(FIRST, error="no leader")
    assert accumulated.progress.partitions is FIRST.partitions


def test_full_report_removes_partitions() -> None:
    accumulated = AccumulatedProgress(FIRST)
    assert accumulated.running == set(ORDERS)
    assert accumulated.take(report(partition_report(ORDERS[2])))
    assert accumulated.running == {ORDERS[2]}
    assert accumulated.take(report(partition_report(ORDERS[0]), whole=False))
    assert [one.partition for one in accumulated.progress.partitions] == [2, 0]
    assert accumulated.running == {ORDERS[0], ORDERS[2]}


def test_states_are_the_same_object_until_one_changes() -> None:
    accumulated = AccumulatedProgress(FIRST)
    before, running = accumulated.states, accumulated.running
    assert before == dict.fromkeys(ORDERS, (TaskState.RUNNING, None))
    assert accumulated.take(report(partition_report(ORDERS[0], 3), whole=False))
    assert (accumulated.states is before, accumulated.running is running) == (True, True)
    assert accumulated.take(report(replace(partition_report(ORDERS[0], 3), error="no leader"), whole=False))
    assert accumulated.states[ORDERS[0]] == (TaskState.RUNNING, "no leader")


def test_stopped_partitions_do_not_run() -> None:
    accumulated = AccumulatedProgress(FIRST)
    assert accumulated.running == set(ORDERS)
    assert accumulated.take(report(partition_report(ORDERS[0], 3, TaskState.STOPPED), whole=False))
    assert accumulated.running == {ORDERS[1], ORDERS[2]}
    assert accumulated.take(report(partition_report(ORDERS[0], 3), whole=False))
    assert accumulated.running == set(ORDERS)


def test_first_report_must_be_full() -> None:
    with pytest.raises(ValueError, match="A->B: source task 1: the first report omits partitions"):
        AccumulatedProgress(report(whole=False))


def test_events_of_reports_that_nobody_has_read_are_kept() -> None:
    accumulated = AccumulatedProgress(FIRST)
    events = [PartitionEvent("orders", 0, float(number), str(number)) for number in range(EVENTS_OF_TASK + 1)]
    for event in events:
        assert accumulated.take(replace(report(whole=False), events=(event,)))
    assert accumulated.progress.events == tuple(events[1:])
    before = accumulated.progress
    assert not accumulated.take(report(whole=False))
    assert accumulated.progress is before
