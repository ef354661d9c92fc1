"""The source's side of a slot: one loop per source broker, and who is fetched where."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from flows.budget import ByteBudget
from flows.copy import PartitionCopy
from flows.patience import PROBE_BYTES
from flows.starts import out_of_range, without_offset
from mm2.core.client_settings import FetchSettings, IsolationLevel
from mm2.kafka.cluster import Cluster
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError
from mm2.kafka.fetch_session import SESSION_ERRORS, FetchSession
from mm2.kafka.offsets import OffsetSpec, list_offsets
from mm2.kafka.raw_fetch import FetchAnswer, FetchedPartition, FetchFrom

PURPOSE = "fetch"

ANSWER_BYTES = 8 * 1024 * 1024
"""The most asked for in one answer, whatever fetch.max.bytes says: an answer is in memory twice for a moment, as it
came and cut into partitions, and requests cost next to nothing at this size."""

IMPATIENT_MS = 10
"""How long a broker may wait for data while a partition of its is held back by the target: as soon as the target has
caught up, it must be asked for again, and a request under way cannot be changed."""

Spawn = Callable[[Coroutine[Any, Any, None]], object]


class Fetching:
    """Brings each partition to the broker to fetch it from, and gives it a first offset.

    ``changed`` is to be called whenever a partition's wishes change.
    """

    def __init__(self, cluster: Cluster, settings: FetchSettings, budget: ByteBudget, spawn: Spawn) -> None:
        self._cluster = cluster
        self._settings = settings
        self._budget = budget
        self._spawn = spawn
        self._brokers: dict[int, BrokerFetch] = {}
        self._homes: dict[PartitionCopy, BrokerFetch] = {}
        self._replicas: dict[PartitionCopy, int] = {}
        self._homeless: set[PartitionCopy] = set()
        self._routing = False
        self._starting: set[PartitionCopy] = set()
        self._start_due = False

    def changed(self, copy: PartitionCopy) -> None:
        """A partition is new, wants to be fetched from elsewhere in it, or not at all."""
        if copy.needs_start:
            self._start(copy)
            return
        home = self._homes.get(copy)
        if home is not None:
            home.touch(copy)
        elif copy.fetch_from is not None:
            self._homeless.add(copy)
            if not self._routing:
                self._routing = True
                self._spawn(self._route())

    def remove(self, copy: PartitionCopy) -> None:
        """The partition is not this slot's any more."""
        self._homeless.discard(copy)
        self._replicas.pop(copy, None)
        self.move_out(copy)

    async def refresh(self) -> None:
        """Look up all leaders anew and forget preferred replicas, once a metadata.max.age.ms. Raises ClusterError."""
        await self._cluster.refresh({copy.source.topic for copy in self._homes})
        self._replicas.clear()
        for copy in list(self._homes):
            self.check_home(copy)

    # -- for the brokers' loops

    def move_out(self, copy: PartitionCopy) -> None:
        """Fetch it from its present broker no more; the next ``changed`` finds it another one."""
        home = self._homes.pop(copy, None)
        if home is not None:
            home.drop(copy)

    def check_home(self, copy: PartitionCopy) -> None:
        """Move it if another broker leads it, as far as we know."""
        leader = self._cluster.cached_leader(copy.source)
        home = self._homes.get(copy)
        wanted = self._replicas.get(copy, leader.node_id if leader is not None else None)
        if home is not None and wanted is not None and wanted != home.node_id:
            self.move_out(copy)
            self.changed(copy)

    def to_replica(self, copy: PartitionCopy, node_id: int) -> None:
        """The leader says: fetch it from there (KIP-392)."""
        self._replicas[copy] = node_id
        self.check_home(copy)

    def leave_replica(self, copy: PartitionCopy) -> bool:
        """Back to the leader, if it was fetched from elsewhere; whether it was."""
        if self._replicas.pop(copy, None) is None:
            return False
        self.move_out(copy)
        self.changed(copy)
        return True

    def find_again(self, copy: PartitionCopy, words: str) -> None:
        """Its broker does not lead it any more."""
        self._replicas.pop(copy, None)
        self._cluster.forget(copy.source)
        self.move_out(copy)
        copy.fetch_troubled(words, time.monotonic())

    def out_of_range(self, copy: PartitionCopy) -> None:
        """The source does not have the offset asked for."""
        if not self.leave_replica(copy):
            self.move_out(copy)
            self._start(copy)

    # -- inside

    async def _route(self) -> None:
        try:
            while self._homeless:
                homeless, self._homeless = self._homeless, set()
                await self._find_homes(homeless)
        finally:
            self._routing = False

    async def _find_homes(self, copies: set[PartitionCopy]) -> None:
        try:
            leaders = await self._cluster.leaders([copy.source for copy in copies])
        except ClusterError as error:
            self._unfound(copies, error)
            return
        for copy in copies:
            leader = leaders[copy.source]
            if copy in self._homes or copy.fetch_from is None:
                continue
            if not isinstance(leader, ClusterError):
                self._move_in(copy, self._replicas.get(copy, leader.node_id))
            else:
                self._unfound({copy}, leader)

    def _unfound(self, copies: Iterable[PartitionCopy], error: ClusterError) -> None:
        now = time.monotonic()
        for copy in copies:
            words = f"fetch {copy.source}: {error}"
            if error.retriable:
                copy.fetch_troubled(words, now)
            else:
                copy.fetch_failed(words, now)

    def _move_in(self, copy: PartitionCopy, node_id: int) -> None:
        broker = self._brokers.get(node_id)
        if broker is None:
            broker = self._brokers[node_id] = BrokerFetch(node_id, self, self._cluster, self._settings, self._budget)
            self._spawn(broker.run())
        self._homes[copy] = broker
        broker.touch(copy)

    def _start(self, copy: PartitionCopy) -> None:
        self._starting.add(copy)
        if not self._start_due:
            self._start_due = True
            self._spawn(self._find_starts())

    async def _find_starts(self) -> None:
        await asyncio.sleep(0)  # whoever else begins now comes along
        self._start_due = False
        copies, self._starting = self._starting, set()
        partitions = [copy.source for copy in copies]
        isolation = self._settings.isolation_level
        earliest = await list_offsets(self._cluster, partitions, OffsetSpec.EARLIEST, timeout_ms=0)
        latest = await list_offsets(self._cluster, partitions, OffsetSpec.LATEST, isolation=isolation, timeout_ms=0)
        now = time.monotonic()
        policy = self._settings.auto_offset_reset
        for copy in copies:
            first, last = earliest[copy.source], latest[copy.source]
            if isinstance(first, ClusterError):
                self._cluster.forget(copy.source)
                self._unfound({copy}, first)
            elif isinstance(last, ClusterError):
                self._cluster.forget(copy.source)
                self._unfound({copy}, last)
            elif copy.fetch_offset is None:
                copy.start_at(without_offset(policy, earliest=first, latest=last), now)
            else:
                copy.start_at(out_of_range(policy, copy.fetch_offset, earliest=first, latest=last), now)


class BrokerFetch:
    """Fetches the partitions at home at one broker, one request at a time, in a fetch session.

    (A) A request goes out only after the budget promised its bytes; what is kept of the answer stays counted there.
    (B) Partitions without news cost nothing: only those that were touched are looked at.
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
            offset = copy.fetch_from
            if copy.full:
                self._full.add(copy)
            else:
                self._full.discard(copy)
            if offset is None:
                self._asked.pop(copy, None)
                self._session.want(copy.source, None)
            else:
                max_bytes = self._settings.max_partition_bytes
                if copy.probing:
                    max_bytes = min(max_bytes, PROBE_BYTES)
                self._asked[copy] = offset
                self._session.want(copy.source, FetchFrom(offset, max_bytes))
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

    async def _exchange(self, promised: int) -> FetchAnswer:
        wait_ms = min(self._settings.max_wait_ms, IMPATIENT_MS) if self._full else self._settings.max_wait_ms
        request = self._session.request(self._settings, max_bytes=promised, max_wait_ms=wait_ms)
        timeout_ms = self._cluster.settings.request_timeout_ms + wait_ms
        answer: FetchAnswer = await self._cluster.send(self.node_id, request, purpose=PURPOSE, timeout_ms=timeout_ms)
        self._session.answered(answer)
        return answer

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
        for copy in copies:
            copy.trouble.source_passing(words)
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
