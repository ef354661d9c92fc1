"""When a partition is behind, what it says about why, and what is reported of it."""

from __future__ import annotations

import pytest

from flows.lane.byte_budget import ByteBudget
from flows.partition.health import FlowHistograms, PartitionMetrics
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import END_OFFSET_VALID_S
from flows.source_task.bottleneck_watch import BottleneckWatch, look_at
from mm2.core.lanes.bottlenecks import BEHIND_AFTER_S, Bottleneck, ClusterLook, waits_for
from mm2.core.lanes.partition_steps import FetchStep, RecentWaits, SendStep
from tests.lab.work import count_calls
from tests.unit.flows.replicators import WALL, arrive, data, partition

END = 1_000


def fetched(*, end: int = END, oldest_s: float = 60.0) -> PartitionReplicator:
    """Return a partition that has fetched ten records of END; the first was written ``oldest_s`` ago."""
    replicator, _ = partition(0)
    arrive(replicator, data(0, 10), end=end)
    return replicator


def test_a_partition_is_behind_after_a_second() -> None:
    replicator = fetched()
    assert not replicator.is_behind(BEHIND_AFTER_S / 2, WALL)
    assert replicator.is_behind(BEHIND_AFTER_S, WALL + 3_600)


def test_records_that_are_on_their_way_are_no_lag() -> None:
    """The timestamp of the oldest one tells: it has caught up again and again, but not when this was looked at."""
    replicator = fetched()
    written = replicator.oldest_pending / 1_000
    assert not replicator.is_behind(100.0, written + BEHIND_AFTER_S / 2)
    assert replicator.is_behind(100.0, written + BEHIND_AFTER_S)
    assert replicator.is_behind(100.0, written - 60.0), "a time in the future tells nothing"


def test_caught_up_is_not_behind_later() -> None:
    """Until the source has not told its end offset for a while: then it may have been behind ever since."""
    replicator, _ = partition(0)
    replicator.end_observed(0, 100.0)
    assert not replicator.is_behind(105.0, WALL)
    replicator.end_observed(10, 105.5)
    assert not replicator.is_behind(105.5, WALL), "caught up half a second ago"
    assert replicator.is_behind(106.5, WALL)
    replicator.end_observed(0, 200.0)
    assert not replicator.is_behind(201.0 + END_OFFSET_VALID_S, WALL)
    replicator.end_observed(10, 230.0)
    assert replicator.is_behind(230.0, WALL)


def test_what_it_says() -> None:
    replicator = fetched()
    look = look_at(
        replicator, 2.0, source=ClusterLook(is_throttling=True), target=ClusterLook(), awaits_room=True, busy_share=0.5
    )
    assert (look.fetching, look.sending) == (FetchStep.FETCHING, SendStep.READY)
    assert look.has_unsent
    assert not look.has_fetched_all
    assert (look.source.is_throttling, look.awaits_room, look.busy_share) == (True, True, 0.5)
    assert waits_for(look) is Bottleneck.TARGET
    entry = replicator.next_batch(2.0)
    assert entry is not None
    replicator.acknowledged(entry, 0, 2.0, WALL)
    nothing = ClusterLook()
    look = look_at(replicator, 2.0, source=nothing, target=nothing, awaits_room=False, busy_share=None)
    assert waits_for(look) is Bottleneck.SOURCE


def test_reported_until_it_is_a_minute_ago() -> None:
    """Also if the partition has caught up, and would not be reported otherwise."""
    replicator, _ = partition(0)
    replicator.end_observed(0, 0.0)
    before = replicator.progress_key(1.0)
    assert replicator.progress(1.0, WALL).last_minute == RecentWaits()
    replicator.waits.add(Bottleneck.SOURCE, 0.5, 1.0)
    during = replicator.progress_key(1.0)
    found = replicator.progress(1.0, WALL).last_minute
    assert found is not None
    assert [(one.on, one.seconds) for one in found.waits] == [("source", 0.5)]
    assert during != before
    assert replicator.progress_key(2.0) == during
    replicator.end_observed(0, 70.0)
    assert replicator.progress_key(71.0) == before
    assert replicator.progress(71.0, WALL).last_minute == RecentWaits()


class Side:
    """Brokers that have answered nothing yet."""

    def look(self, partition: PartitionReplicator, now: float) -> ClusterLook:
        return ClusterLook()


async def test_the_watch_counts_what_is_behind() -> None:
    behind, idle = fetched(), partition(0)[0]
    idle.end_observed(0, 10.0)
    watch = BottleneckWatch([behind, idle], Side(), Side(), ByteBudget(1_000))
    watch.look(10.0, WALL + 60, 0.25, None)
    watch.look(10.5, WALL + 60, 0.5, 1.0)
    watch.look(3_600.0, WALL + 60, 5.0, None)
    assert {one.on: one.seconds for one in watch.total} == {"target": 5.25, "lane": 0.5}
    assert [one.seconds for one in watch.recent(3_600.0).waits] == [5.0]
    found = behind.progress(3_600.0, WALL).last_minute
    assert found is not None
    assert found.behind == 5.0
    assert idle.progress(3_600.0, WALL).last_minute == RecentWaits()


async def test_partitions_that_are_not_behind_cost_little() -> None:
    partitions = [partition(0)[0] for _ in range(100)]
    for one in partitions:
        one.end_observed(0, 10.0)
    watch = BottleneckWatch(partitions, Side(), Side(), ByteBudget(1_000))
    calls = count_calls(lambda: watch.look(11.0, WALL, 0.25, None))
    assert calls < 10 * len(partitions)


@pytest.mark.parametrize("transactional", [False, True])
def test_histograms_count_batches_of_all_partitions(transactional: bool) -> None:
    histograms = FlowHistograms()
    for number in range(2):
        replicator, _ = partition(0, metrics=PartitionMetrics(histograms))
        replicator.is_transactional = transactional
        arrive(replicator, data(0, 10), end=END)
        entry = replicator.next_batch(0.0)
        assert entry is not None
        replicator.acknowledged(entry, 0, 0.0, WALL)
        assert sum(histograms.latencies.counts) == number + (not transactional)
        replicator.transaction_committed((), 0.0, WALL)
        assert sum(histograms.latencies.counts) == number + 1
    assert sum(histograms.ages.counts) == 2
