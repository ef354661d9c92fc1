"""Losses as source tasks report them: the newest ones again with every report."""

from __future__ import annotations

from dataclasses import replace

from mm2.core.lanes.losses import LOSSES_KEPT, Loss
from mm2.core.naming.names import TopicPartition
from mm2.node.status.progress import Losses


def lost(first: int, until: int, partition: int = 0) -> Loss:
    return Loss(
        topic="t", partition=partition, first=first, until=until, reason="retention was too short", kind="retention"
    )


def test_a_repeated_report_adds_nothing() -> None:
    losses = Losses()
    losses.take(0, "run", ())
    for reported in ((lost(10, 15),), (lost(10, 15),), (lost(10, 15), lost(20, 21)), (lost(10, 15), lost(20, 21))):
        losses.take(0, "run", reported)
    assert losses.newest == (lost(10, 15), lost(20, 21))
    assert losses.totals == {TopicPartition("t", 0): 6}


def test_a_loss_that_grew_is_counted_once() -> None:
    losses = Losses()
    losses.take(0, "run 1", (lost(10, 15),))
    losses.take(0, "run 1", (lost(10, 25),))
    losses.take(0, "run 2", (lost(10, 20),))  # the source task was restarted
    assert losses.newest == (lost(10, 25),)
    assert losses.totals == {TopicPartition("t", 0): 15}


def test_only_the_newest_are_kept_and_all_are_counted() -> None:
    losses = Losses()
    reported = [lost(10 * number, 10 * number + 1) for number in range(5 * LOSSES_KEPT)]
    for number in range(len(reported)):
        for source_task in (0, 1):  # both report the same partition, which has moved
            losses.take(source_task, "run", tuple(reported[: number + 1][-LOSSES_KEPT:]))
    assert losses.newest == tuple(reported[-LOSSES_KEPT:])
    assert losses.totals == {TopicPartition("t", 0): len(reported)}


def test_the_total_of_a_partition_is_forgotten() -> None:
    losses = Losses()
    losses.take(0, "run", (lost(0, 3), lost(0, 4, partition=1)))
    losses.forget(TopicPartition("t", 0))
    losses.forget(TopicPartition("t", 7))
    assert losses.totals == {TopicPartition("t", 1): 4}


def test_new_losses_are_returned_once() -> None:
    losses = Losses()
    first, second = replace(lost(10, 15), kind="retention"), replace(lost(10, 15), kind="truncated")
    assert losses.take(0, "run 1", (first,)) == [first]
    assert losses.take(0, "run 1", (replace(first, until=20),)) == [], "it has grown"
    assert losses.take(0, "run 2", (first,)) == [], "the source task was restarted"
    assert losses.take(0, "run 2", (first, second)) == [second], "another loss with the same first offset"
    assert losses.counts == {TopicPartition("t", 0): 2}


def test_merged_losses_are_counted() -> None:
    losses = Losses()
    losses.take(0, "run", (lost(10, 15),))
    losses.take(0, "run", (replace(lost(10, 40), count=3, lost=12),))
    assert losses.counts == {TopicPartition("t", 0): 3}
    assert losses.totals == {TopicPartition("t", 0): 12}
    losses.forget(TopicPartition("t", 0))
    assert (losses.counts, losses.totals) == ({}, {})
