"""Looks at the partitions of a source task several times a second, and counts what those that are behind wait for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Protocol

from flows.lane.byte_budget import ByteBudget
from flows.lane.loop_load import BusyShare
from flows.partition.replicator import PartitionReplicator
from mm2.core.lanes.bottlenecks import Bottleneck, ClusterLook, PartitionLook, WaitingTimes, waits_for
from mm2.core.lanes.partition_steps import RecentWaits, Wait

LOOK_EVERY_S = 0.25
"""A share of the last minute is exact to a few percent with 240 looks, and one of the last ten seconds is useful."""

COST_SHARE = 0.01
"""With many partitions it looks less often, so that it takes at most this share of a core."""

LATE_S = 5.0
"""A look that is later than this does not count for more: a process that was suspended did not wait for anything."""


class ClusterSide(Protocol):
    """Fetcher or producer, as far as it tells about its brokers."""

    def look(self, partition: PartitionReplicator, now: float, /) -> ClusterLook:
        """Return how the broker of the partition is seen now."""


class BottleneckWatch:
    """Counts for each partition, and for all of them together. Runs on the event loop of the lane."""

    def __init__(
        self,
        partitions: Collection[PartitionReplicator],
        source: ClusterSide,
        target: ClusterSide,
        budget: ByteBudget,
    ) -> None:
        """``partitions``: those of the source task, which may change."""
        self._partitions = partitions
        self._source = source
        self._target = target
        self._budget = budget
        self._waits = WaitingTimes()

    @property
    def total(self) -> tuple[Wait, ...]:
        """What was waited for since the start."""
        return tuple(Wait(on=cause.value, seconds=seconds) for cause, seconds in self._waits.total.items())

    def recent(self, now: float) -> RecentWaits:
        """Return the last minute, at ``now`` monotonic seconds."""
        return self._waits.recent(now)

    async def run(self) -> None:
        """Look until cancelled."""
        last = time.monotonic()
        busy = BusyShare(asyncio.get_running_loop(), last)
        pause = LOOK_EVERY_S
        while True:
            await asyncio.sleep(pause)
            now = time.monotonic()
            self.look(now, time.time(), min(now - last, pause + LATE_S), busy.take(now))
            last = now
            pause = max(LOOK_EVERY_S, (time.monotonic() - now) / COST_SHARE)

    def look(self, now: float, wall: float, elapsed: float, busy_share: float | None) -> None:
        """Count the ``elapsed`` seconds since the last look, in which the lane was busy for ``busy_share``."""
        awaits_room = self._budget.waited(asyncio.get_running_loop().time()) > 0
        waited: dict[Bottleneck, float] = {}
        for partition in self._partitions:
            if not partition.is_behind(now, wall):
                continue
            source, target = self._source.look(partition, now), self._target.look(partition, now)
            cause = waits_for(
                look_at(partition, now, source=source, target=target, awaits_room=awaits_room, busy_share=busy_share)
            )
            if cause is not None:
                partition.waits.add(cause, elapsed, now)
                waited[cause] = waited.get(cause, 0.0) + elapsed
        if waited:
            self._waits.add(waited, elapsed, now)


def look_at(
    partition: PartitionReplicator,
    now: float,
    *,
    source: ClusterLook,
    target: ClusterLook,
    awaits_room: bool,
    busy_share: float | None,
) -> PartitionLook:
    """Return what tells why the partition is behind. ``source`` and ``target``: its brokers; the rest: its lane."""
    return PartitionLook(
        fetching=partition.fetch_step,
        sending=partition.send_step(now),
        has_unsent=partition.has_unsent,
        has_fetched_all=partition.has_fetched_all,
        is_retrying=partition.awaits_retry,
        source_is_silent=partition.source_is_silent,
        target_is_silent=partition.target_is_silent,
        awaits_room=awaits_room,
        has_uncommitted=partition.has_uncommitted,
        busy_share=busy_share,
        source=source,
        target=target,
    )
