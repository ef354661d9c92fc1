"""Fetching from one source broker, in a fetch session."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from flows.budget import ByteBudget
from flows.copy import PartitionCopy
from flows.patience import PROBE_BYTES, SILENT_S
from mm2.core.client_settings import FetchSettings, IsolationLevel
from mm2.kafka.cluster import Cluster
from mm2.kafka.diagnosis import broker, cut_off
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError
from mm2.kafka.fetch_session import SESSION_ERRORS, FetchSession
from mm2.kafka.raw_fetch import FetchAnswer, FetchedPartition, FetchFrom

if TYPE_CHECKING:
    from flows.fetch import Fetching

PURPOSE = "fetch"

ANSWER_BYTES = 8 * 1024 * 1024
"""The most asked for in one answer, whatever fetch.max.bytes says: an answer is in memory twice for a moment, as it
came and cut into partitions, and requests cost next to nothing at this size."""

IMPATIENT_MS = 10
"""How long a broker may wait for data while a partition of its is held back by the target: as soon as the target has
caught up, it must be asked for again, and a request under way cannot be changed."""

LULL_S = 0.002
"""How long a broker is left alone after an answer that brought little, and all there was. What arrives meanwhile comes
with one request and goes on with one, where each would cost as much for a single record as for a hundred: a
millisecond of CPU or so, of which both brokers' share is the larger. Records that come one by one, further apart than
this, do not wait: the next request is under way again when they come. And what was fetched is sent on first."""

LITTLE_BYTES = 64 * 1024
"""Beyond that the records themselves cost more than the request."""


class BrokerFetch:
    """Fetches the partitions at home at one broker, one request at a time, in a fetch session.

    (A) A request goes out only after the budget promised its bytes; what is kept of the answer stays counted there.
    (B) Partitions without news cost nothing: only those that were touched are looked at.
    (C) A copy hears from the broker about its partition, even where nothing is new since another copy had it.
    (D) While there is more to fetch, the next request follows at once.
    """

    def __init__(
        self, node_id: int, fetching: Fetching, cluster: Cluster, settings: FetchSettings, budget: ByteBudget
    ) -> None:
        self.node_id = node_id
        self._fetching = fetching
        self._cluster = cluster
        self._settings = settings
        self._budget = budget
        self._session = FetchSession()
        self._copies: dict[tuple[str, int], PartitionCopy] = {}
        self._asked: dict[PartitionCopy, int] = {}
        self._full: set[PartitionCopy] = set()
        self._touched: set[PartitionCopy] = set()
        self._news = asyncio.Event()
        self._silent_since: float | None = None

    def touch(self, copy: PartitionCopy) -> None:
        """Look at its wishes before the next request."""
        self._copies[copy.source.topic, copy.source.partition] = copy
        self._touched.add(copy)
        self._news.set()

    def drop(self, copy: PartitionCopy) -> None:
        """It has no home here any more."""
        self._copies.pop((copy.source.topic, copy.source.partition), None)
        self._touched.discard(copy)
        self._full.discard(copy)
        self._asked.pop(copy, None)
        self._session.want(copy.source, None)

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            self._news.clear()
            self._look()
            if not self._session:
                await self._news.wait()
                continue
            with self._budget.fetcher():
                while self._session:
                    await self._fetch_once()
                    self._look()

    def _look(self) -> None:
        for copy in self._touched:
            offset = copy.inlet.wanted
            if copy.inlet.full:
                self._full.add(copy)
            else:
                self._full.discard(copy)
            if offset is None:
                self._asked.pop(copy, None)
                self._session.want(copy.source, None)
            else:
                max_bytes = self._settings.max_partition_bytes
                if copy.outlet.setbacks.any:
                    max_bytes = min(max_bytes, PROBE_BYTES)
                self._asked[copy] = offset
                if copy.headway.end_offset < 0 and self._session.still_has(copy.source):
                    self._session.lost()  # a full request is answered in full: (C)
                self._session.want(copy.source, FetchFrom(offset, max_bytes, topic_id=copy.topic_ids.source))
        self._touched.clear()

    async def _fetch_once(self) -> None:
        promised = await self._budget.promise(min(self._settings.max_bytes, ANSWER_BYTES))
        kept = 0
        trouble: ClusterError | None = None
        try:
            self._look()  # the wait may have been long
            if not self._session:
                return
            answer = await self._exchange(promised)
            kept = self._take(answer)
        except ClusterClosed:
            raise
        except ClusterError as error:
            trouble = error
        finally:
            self._budget.release(promised - kept)
        if trouble is not None:
            self._session.lost()
            await self._unanswered(trouble)
        else:
            await self._pause(answer)
            if 0 < kept <= LITTLE_BYTES and self._brought_all(answer):
                await asyncio.sleep(LULL_S)

    def _brought_all(self, answer: FetchAnswer) -> bool:
        """Whether nothing is left at the broker of the partitions in the answer."""
        copies = (self._copies.get((fetched.topic, fetched.partition)) for fetched in answer.partitions)
        return all(copy.has_all for copy in copies if copy is not None)

    async def _exchange(self, promised: int) -> FetchAnswer:
        wait_ms = min(self._settings.max_wait_ms, IMPATIENT_MS) if self._full else self._settings.max_wait_ms
        request = self._session.request(self._settings, max_bytes=promised, max_wait_ms=wait_ms)
        timeout_ms = self._cluster.settings.request_timeout_ms + wait_ms
        overdue = asyncio.get_running_loop().call_later(wait_ms / 1000 + SILENT_S, self._overdue)
        try:
            answer: FetchAnswer = await self._cluster.send(
                self.node_id, request, purpose=PURPOSE, timeout_ms=timeout_ms
            )
        finally:
            overdue.cancel()
        self._session.answered(answer)
        if self._silent_since is not None:
            self._well_again()
        return answer

    def _overdue(self) -> None:
        """The answer does not come; it is waited for on."""
        self._silent_since = self._silent_since or time.monotonic() - SILENT_S
        settings = self._cluster.settings
        words = f"fetch from {broker(self.node_id, settings)}: no answer for {SILENT_S:.0f} s: {cut_off(settings)}"
        for copy in self._copies.values():
            copy.trouble.source_passing(words, waits=True)

    def _well_again(self) -> None:
        """An answer came: partitions without news are not in it, and are well too."""
        self._silent_since = None
        for copy in self._copies.values():
            if copy.trouble.waits_for_source:
                copy.trouble.fetched()

    async def _pause(self, answer: FetchAnswer) -> None:
        """Wait where the broker asks for it, or refuses the whole request."""
        if answer.error not in SESSION_ERRORS:
            words = str(BrokerError(answer.error, f"fetch from broker {self.node_id}"))
            for copy in self._copies.values():
                copy.trouble.source_passing(words)
            await asyncio.sleep(self._cluster.settings.retry_backoff_max_ms / 1000)
        if answer.throttle_ms:
            await asyncio.sleep(answer.throttle_ms / 1000)

    def _take(self, answer: FetchAnswer) -> int:
        now, wall = time.monotonic(), time.time()
        committed = self._settings.isolation_level is IsolationLevel.READ_COMMITTED
        kept = 0
        for fetched in answer.partitions:
            copy = self._copies.get((fetched.topic, fetched.partition))
            asked = self._asked.get(copy) if copy is not None else None
            if copy is None or asked is None:
                continue
            if fetched.error:
                self._refused(copy, fetched)
                continue
            end_offset = fetched.last_stable_offset if committed else fetched.high_watermark
            kept += copy.arrived(asked, fetched, end_offset, now, wall)
            self._touched.add(copy)
            if fetched.preferred_replica >= 0 and fetched.preferred_replica != self.node_id:
                self._fetching.to_replica(copy, fetched.preferred_replica)
        return kept

    def _refused(self, copy: PartitionCopy, fetched: FetchedPartition) -> None:
        error = BrokerError(fetched.error, f"fetch {copy.source}")
        if fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._fetching.out_of_range(copy)
        elif error.stale_metadata or fetched.error in (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE):
            self._fetching.find_again(copy, str(error))
        elif error.retriable or fetched.error == ErrorCode.UNKNOWN_SERVER_ERROR:
            copy.fetch_troubled(str(error), time.monotonic())
        else:
            copy.fetch_failed(str(error), time.monotonic())

    async def _unanswered(self, error: ClusterError) -> None:
        """This broker does not answer: perhaps others lead its partitions now."""
        copies = list(self._copies.values())
        words = str(error)
        if not error.retriable:
            for copy in copies:
                copy.fetch_failed(words, time.monotonic())
            return
        now = time.monotonic()
        since = self._silent_since = self._silent_since or now
        waits = now - since >= SILENT_S
        for copy in copies:
            copy.trouble.source_passing(words, waits=waits)
        try:
            await self._cluster.refresh({copy.source.topic for copy in copies})
        except ClusterClosed:
            raise
        except ClusterError as trouble:
            for copy in copies:
                copy.trouble.source_passing(str(trouble))
        for copy in copies:
            if not self._fetching.leave_replica(copy):
                self._fetching.check_home(copy)
