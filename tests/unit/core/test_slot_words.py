"""`mm2.core.slot_words`: reports that leave out what has not changed say as much as whole ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.lease import PartitionProgress, SlotProgress, TaskState
from mm2.core.names import Flow, TopicPartition
from mm2.core.slot_words import SlotWord

ORDERS = [TopicPartition("orders", number) for number in range(3)]


def said(partition: TopicPartition, position: int = 0, state: TaskState = TaskState.RUNNING) -> PartitionProgress:
    return PartitionProgress(
        topic=partition.topic,
        partition=partition.partition,
        remote_topic=f"A.{partition.topic}",
        state=state,
        position=position,
    )


def report(*partitions: PartitionProgress, whole: bool = True, error: str | None = None) -> SlotProgress:
    return SlotProgress(
        flow=Flow("A", "B"),
        slot=1,
        epoch=7,
        state=TaskState.RUNNING,
        error=error,
        partitions=partitions,
        whole=whole,
    )


FIRST = report(*map(said, ORDERS))


def test_what_is_left_out_stays() -> None:
    """(A), (B)"""
    word = SlotWord(FIRST)
    assert word.take(report(said(ORDERS[1], 5), whole=False))
    assert word.progress == report(said(ORDERS[0]), said(ORDERS[1], 5), said(ORDERS[2]))
    assert word.progress.partitions[0] is FIRST.partitions[0]
    assert word.progress.partitions[2] is FIRST.partitions[2]


@pytest.mark.parametrize("whole", [False, True])
def test_no_news_is_the_same_object(whole: bool) -> None:
    """(B), also after it: what was left out is still that of before."""
    word = SlotWord(FIRST)
    again = report(*map(said, ORDERS), whole=True) if whole else report(whole=False)
    assert not word.take(again)
    assert word.progress is FIRST
    assert word.take(report(said(ORDERS[1], 5), whole=False))
    assert word.progress.partitions[0] is FIRST.partitions[0]


def test_what_a_report_repeats_is_no_news() -> None:
    """Its answer was lost, and the lane sends it again."""
    word = SlotWord(FIRST)
    changed = report(said(ORDERS[0], 9), whole=False)
    assert word.take(changed)
    assert not word.take(changed)


def test_news_of_the_slot_alone() -> None:
    word = SlotWord(FIRST)
    assert word.take(report(whole=False, error="no leader"))
    assert word.progress == replace(FIRST, error="no leader")
    assert word.progress.partitions is FIRST.partitions


def test_a_whole_report_takes_partitions_away() -> None:
    word = SlotWord(FIRST)
    assert word.running == set(ORDERS)
    assert word.take(report(said(ORDERS[2])))
    assert word.running == {ORDERS[2]}
    assert word.take(report(said(ORDERS[0]), whole=False))
    assert [one.partition for one in word.progress.partitions] == [2, 0]
    assert word.running == {ORDERS[0], ORDERS[2]}


def test_states_are_the_same_object_until_one_changes() -> None:
    word = SlotWord(FIRST)
    before, running = word.states, word.running
    assert before == dict.fromkeys(ORDERS, (TaskState.RUNNING, None))
    assert word.take(report(said(ORDERS[0], 3), whole=False))
    assert (word.states is before, word.running is running) == (True, True)
    assert word.take(report(replace(said(ORDERS[0], 3), error="no leader"), whole=False))
    assert word.states[ORDERS[0]] == (TaskState.RUNNING, "no leader")


def test_stopped_partitions_do_not_run() -> None:
    word = SlotWord(FIRST)
    assert word.running == set(ORDERS)
    assert word.take(report(said(ORDERS[0], 3, TaskState.STOPPED), whole=False))
    assert word.running == {ORDERS[1], ORDERS[2]}
    assert word.take(report(said(ORDERS[0], 3), whole=False))
    assert word.running == set(ORDERS)


def test_the_first_report_is_whole() -> None:
    with pytest.raises(ValueError, match="A->B slot 1: the first report leaves partitions out"):
        SlotWord(report(whole=False))
