"""The parts of one slot joined together: partitions, fetching, producing, source offsets, offset syncs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from flows.batch.choice import Reason, rules_from
from flows.batch.outgoing import Outgoing
from flows.bookkeeping import Bookkeeping
from flows.budget import ByteBudget
from flows.copy import PartitionCopy
from flows.fetch import Fetching
from flows.identity import Identities, MadeAnew
from flows.produce import Producing
from flows.surroundings import Seen
from mm2.core.lease import PartitionLease, SlotLease
from mm2.kafka.backoff import Backoff
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import ClusterClosed, ClusterError

log = logging.getLogger("mm2.pipeline")

HELD_SHARE = 8
"""A partition may hold an eighth of the lane's bytes: enough for five batches of 1 MiB in flight and more waiting, and
one that is slow leaves most of the room to the others."""

STARVED_AFTER_S = 1.0
"""If a fetch has waited for room that long, partitions whose batches are not being acknowledged give back theirs."""

TICK_S = 1.0
"""How often it is looked for starvation and old metadata."""


class Pipeline:
    """What a partition sees around it (`flows.surroundings.Surroundings`), and the loops that keep it going.

    (A) Everything spawned belongs to ``group``: an unexpected error in any of it ends the slot, with its words.
    """

    def __init__(
        self,
        lease: SlotLease,
        budget: ByteBudget,
        group: asyncio.TaskGroup,
        *,
        source: Cluster,
        target: Cluster,
        books: Bookkeeping,
        made_anew: MadeAnew,
    ) -> None:
        """``made_anew`` is called for a copy whose source topic is another one now, with the new topic's id."""
        self._lease = lease
        self._budget = budget
        self._group = group
        self._source = source
        self._target = target
        self._rules = rules_from(lease.produce)
        self._moved = asyncio.Event()
        self._closed = False
        self.books = books
        self.counts: Counter[Reason] = Counter()
        self.copies: set[PartitionCopy] = set()
        self.identities = Identities(lease.flow, source, target, books, made_anew)
        self.fetching = Fetching(source, lease.fetch, budget, self.spawn, self.identities)
        self.producing = Producing(target, lease.produce, budget, self.spawn)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run beside everything else of this slot."""
        if self._closed:
            work.close()
        else:
            self._group.create_task(work)

    def start(self) -> None:
        """Begin the loops that run as long as the slot."""
        self.spawn(self._flush_offsets())
        self.spawn(self._watch())

    def close(self) -> None:
        """Stop where it is: nothing is started any more."""
        self._closed = True
        for copy in self.copies:
            copy.abandon()

    def add(self, partition: PartitionLease) -> PartitionCopy:
        """Copy one more partition."""
        source, target = self._source.settings, self._target.settings
        copy = PartitionCopy(
            partition,
            self,
            rules=self._rules,
            max_in_flight=self._lease.produce.max_in_flight,
            max_held=max(1, self._budget.limit // HELD_SHARE),
            check_crcs=self._lease.fetch.check_crcs,
            source_backoff=Backoff(source.retry_backoff_ms, source.retry_backoff_max_ms),
            target_backoff=Backoff(target.retry_backoff_ms, target.retry_backoff_max_ms),
            counts=self.counts,
            now=time.monotonic(),
        )
        self.copies.add(copy)
        self.books.begin(copy, partition)
        self.fetching.changed(copy)
        return copy

    def look_again(self) -> None:
        """There is reason to think that a topic is another one now: look."""
        self.spawn(self._refresh())

    async def let_go(self, copies: set[PartitionCopy]) -> None:
        """Stop copying these partitions: when it returns, nothing of them is in flight and their offsets are stored.

        Takes as long as the target needs for what is in flight; the caller bounds the wait.
        """
        for copy in copies:
            copy.drain()
        while True:
            self._moved.clear()
            if all(copy.idle for copy in copies):
                await self._flush()
                if all(self.books.is_clean(copy) for copy in copies):
                    break
            else:
                await self._moved.wait()
        await self.books.close(copies)
        for copy in copies:
            self.copies.discard(copy)
            self.fetching.remove(copy)

    # -- Surroundings

    def release(self, count: int) -> None:
        self._budget.release(count)
        self._moved.set()

    def fetch_changed(self, copy: PartitionCopy) -> None:
        self.fetching.changed(copy)
        self._moved.set()

    def send_changed(self, copy: PartitionCopy) -> None:
        self.producing.changed(copy)

    def wake_later(self, copy: PartitionCopy, delay: float) -> None:
        self.spawn(self._wake(copy, delay))

    def acknowledged(self, copy: PartitionCopy, batch: Outgoing, base_offset: int, seen: Seen) -> None:
        self.books.acknowledged(copy, batch, base_offset, seen)
        if base_offset >= 0:
            if base_offset < copy.headway.remote_end:
                self.look_again()  # the remote topic lost its end, or is another one
            copy.headway.remote_end = base_offset + batch.count
        self._moved.set()

    def passed(self, copy: PartitionCopy, seen: Seen) -> None:
        self.books.passed(copy, seen)

    # -- loops

    async def _wake(self, copy: PartitionCopy, delay: float) -> None:
        await asyncio.sleep(delay)
        copy.wake(time.monotonic())

    async def _flush_offsets(self) -> None:
        interval = self._lease.offsets.flush_interval_ms / 1000
        while True:
            await asyncio.sleep(interval)
            await self._flush()
            self.books.commit()

    async def _flush(self) -> None:
        self.identities.check(list(self.copies))
        await self.books.flush()

    async def _watch(self) -> None:
        refreshed = time.monotonic()
        max_age = min(self._source.settings.metadata_max_age_ms, self._target.settings.metadata_max_age_ms) / 1000
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            if self._budget.waited(asyncio.get_running_loop().time()) > STARVED_AFTER_S:
                for copy in list(self.copies):
                    if copy.outlet.quiet_for(now) > STARVED_AFTER_S:
                        copy.shed()
            if now - refreshed > max_age:
                refreshed = now
                await self._refresh()

    async def _refresh(self) -> None:
        try:
            await self.fetching.refresh()
            await self._target.refresh({copy.target.topic for copy in self.copies})
            self.identities.check(list(self.copies))
        except ClusterClosed:
            raise
        except ClusterError as error:
            log.info("look up leaders: %s", error)  # whoever needs one asks again and shows the trouble
