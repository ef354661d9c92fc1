"""Fetching from one source broker, in a fetch session."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from flows.lane.byte_budget import ByteBudget
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import SourceAnswers
from flows.partition.timeouts import PROBE_BYTES, TIMEOUTS, Timeouts
from flows.source.fetch_limit import FetchLimit
from flows.source.response_size import ResponseSize
from mm2.core.access.rights import on_topic
from mm2.core.lanes.bottlenecks import ClusterLook
from mm2.core.offsets.leader_epochs import UNKNOWN_EPOCH, EpochEnd
from mm2.core.settings.client import FetchSettings, IsolationLevel
from mm2.core.topics.acls import Operation
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.fetch_session import SESSION_ERRORS, FetchSession
from mm2.kafka.connection.diagnosis import broker, cut_off
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError, RequestTimedOut
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.fetch_request import FetchAnswer, FetchFrom

log = logging.getLogger(__name__)

PURPOSE = "fetch"

FULL_PARTITION_WAIT_MS = 10
"""How long a broker may wait for data while one of its partitions is full: as soon as the target has caught up, that
partition has to be fetched again, and a request in flight cannot be changed."""

PAUSE_S = 0.002
"""Pause after a small response that contained everything available. Records that arrive meanwhile share one fetch
and one produce request, which cost as much for a single record as for a hundred: about a millisecond of CPU, mostly at
the brokers. Records further apart than this are not delayed: the next request is waiting when they arrive. Fetched
records are produced before the pause."""

SMALL_RESPONSE_BYTES = 64 * 1024
"""Above this size the records cost more than the request."""


class BrokerFetcher:
    """Fetches the partitions assigned to one broker, one request at a time, in a fetch session.

    (A) A request is sent only after the budget promised its bytes; what is kept of the response stays counted.
    (B) Partitions without new data cost nothing: only updated partitions are processed.
    (C) A partition that returns gets a response even if the broker has no new data since it left.
    (D) While there is more to fetch, the next request follows immediately.
    (E) After a timeout less is requested, so that a slow link does not time out for ever; over a long link more is.
    (F) A response observes the end offsets of all partitions of the session: those that it leaves out are unchanged.
    (G) With a limit, a request waits for its share before the budget promises anything, and asks for no more than that.
    """

    def __init__(
        self,
        node_id: int,
        cluster: Cluster,
        settings: FetchSettings,
        budget: ByteBudget,
        *,
        limit: FetchLimit,
        on_error: Callable[[PartitionReplicator, BrokerError], None],
        on_diverged: Callable[[PartitionReplicator, int, EpochEnd], None],
        is_unchecked: Callable[[PartitionReplicator], bool],
        on_preferred_replica: Callable[[PartitionReplicator, int], None],
        on_broker_failed: Callable[[list[PartitionReplicator]], Awaitable[None]],
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        """``on_error``: the broker rejected the fetch of a partition. ``on_diverged``: its log does not contain the
        record before that offset. ``is_unchecked``: whether to discard what a broker that cannot tell has answered,
        since that is checked otherwise. ``on_preferred_replica``: fetch it from that broker instead (KIP-392).
        ``on_broker_failed``: the request for these partitions failed."""
        self.node_id = node_id
        self._report_after_s = timeouts.unanswered_report_s
        self._cluster = cluster
        self._settings = settings
        self._budget = budget
        self._limit = limit
        self._on_error = on_error
        self._on_diverged = on_diverged
        self._is_unchecked = is_unchecked
        self._on_preferred_replica = on_preferred_replica
        self._on_broker_failed = on_broker_failed
        self._session = FetchSession()
        self._answers = SourceAnswers()
        self._response_size = ResponseSize(settings.max_partition_bytes, may_grow=not settings.max_partition_bytes_set)
        self._partitions: dict[tuple[str, int], PartitionReplicator] = {}
        self._requested: dict[PartitionReplicator, int] = {}  # the offset of each partition
        self._full: set[PartitionReplicator] = set()
        self._updated: set[PartitionReplicator] = set()
        self._changed = asyncio.Event()
        self._unanswered_since: float | None = None
        self._throttled_until = 0.0
        self._answer_s: float | None = None  # of the last answer with records

    def look(self, now: float) -> ClusterLook:
        """Return how the broker is seen now."""
        return ClusterLook(
            is_throttling=now < self._throttled_until,
            answer_s=self._answer_s,
            round_trip_s=self._cluster.round_trip_of(self.node_id, PURPOSE),
        )

    def update(self, partition: PartitionReplicator) -> None:
        """Read the partition's fetch offset again before the next request."""
        self._partitions[partition.source.topic, partition.source.partition] = partition
        self._updated.add(partition)
        self._changed.set()

    def remove(self, partition: PartitionReplicator) -> None:
        """Stop fetching the partition from this broker."""
        self._partitions.pop((partition.source.topic, partition.source.partition), None)
        self._updated.discard(partition)
        self._full.discard(partition)
        self._requested.pop(partition, None)
        self._session.want(partition.source, None)
        partition.leave_session()

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            self._changed.clear()
            self._update_session()
            if not self._session:
                await self._changed.wait()
                continue
            with self._budget.fetcher():
                while self._session:
                    await self._fetch_once()
                    self._update_session()
            self._limit.leave(self.node_id)

    def _update_session(self) -> None:
        """Apply what has changed to the session. No request may be in flight."""
        now = time.monotonic()
        for partition in self._updated:
            offset = partition.fetch_offset
            if partition.is_full:
                self._full.add(partition)
            else:
                self._full.discard(partition)
            if offset is None:
                self._requested.pop(partition, None)
                self._session.want(partition.source, None)
                partition.leave_session()
            else:
                max_bytes = self._response_size.partition_bytes
                partition.expect_responses_of(max_bytes)
                if partition.is_retrying:
                    max_bytes = min(max_bytes, PROBE_BYTES)
                self._requested[partition] = offset
                if partition.end_offset < 0 and self._session.still_has(partition.source):
                    self._session.lost()  # a full request is answered in full: (C)
                leader = self._cluster.cached_leader(partition.source)
                wanted = FetchFrom(
                    offset,
                    max_bytes,
                    leader_epoch=leader.epoch if leader is not None else UNKNOWN_EPOCH,
                    topic_id=partition.topic_ids.source,
                    last_fetched_epoch=partition.last_fetched_epoch,
                )
                self._session.want(partition.source, wanted)
                partition.join_session(self._answers, now)
        self._updated.clear()

    async def _fetch_once(self) -> None:
        self._answers.limited_to = self._limit.rate if self._limit.must_wait else None  # until the next request is due
        await self._limit.wait()
        most = min(self._settings.max_bytes, self._response_size.limit)
        promised = await self._budget.promise(self._limit.request_bytes(self.node_id, len(self._session), most))
        kept = 0
        failure: ClusterError | None = None
        try:
            self._update_session()  # again, since the wait may have been long
            if not self._session:
                return
            answer = await self._request(promised)
            kept = self._handle_answer(answer)
        except ClusterClosed:
            raise
        except ClusterError as error:
            failure = error
            if isinstance(error, RequestTimedOut):
                self._response_size.timed_out(promised)
        finally:
            self._budget.settle(promised, kept=kept)
        if failure is not None:
            log.debug("broker %d: fetch request of %d partitions failed: %s", self.node_id, len(self._session), failure)
            self._session.lost()
            await self._handle_failure(failure)
            return
        if answer.error:
            log.debug("broker %d: fetch session ended: error %d", self.node_id, answer.error)
        if answer.error not in SESSION_ERRORS:
            message = str(BrokerError(answer.error, f"fetch from broker {self.node_id}"))
            for partition in self._partitions.values():
                partition.source_unavailable(message)
            await asyncio.sleep(self._cluster.settings.retry_backoff_max_ms / 1000)
        if answer.throttle_ms:
            self._throttled_until = time.monotonic() + answer.throttle_ms / 1000
            await asyncio.sleep(answer.throttle_ms / 1000)
        if 0 < kept <= SMALL_RESPONSE_BYTES and self._has_fetched_all(answer):
            await asyncio.sleep(PAUSE_S)

    def _has_fetched_all(self, answer: FetchAnswer) -> bool:
        """Return whether the partitions in the response are fetched to their end."""
        partitions = (self._partitions.get((fetched.topic, fetched.partition)) for fetched in answer.partitions)
        return all(partition.has_fetched_all for partition in partitions if partition is not None)

    async def _request(self, promised: int) -> FetchAnswer:
        wait_ms = self._settings.max_wait_ms
        if self._full:
            wait_ms = min(wait_ms, FULL_PARTITION_WAIT_MS)
        request = self._session.request(self._settings, max_bytes=promised, max_wait_ms=wait_ms)
        timeout_ms = self._cluster.settings.request_timeout_ms + wait_ms
        sent_at = time.monotonic()
        overdue = asyncio.get_running_loop().call_later(wait_ms / 1000 + self._report_after_s, self._report_unanswered)
        try:
            answer: FetchAnswer = await self._cluster.send(
                self.node_id, request, purpose=PURPOSE, timeout_ms=timeout_ms
            )
        finally:
            overdue.cancel()
        sizes = [len(fetched.records) for fetched in answer.partitions]
        size = sum(sizes)
        elapsed = time.monotonic() - sent_at
        self._response_size.received(size, elapsed, timeout_ms / 1000)
        if size:
            round_trip = self._cluster.round_trip_of(self.node_id, PURPOSE)
            self._response_size.adapt(size, max(sizes), promised, elapsed, round_trip)
            self._answer_s = elapsed
        self._session.answered(answer)
        if self._unanswered_since is not None:
            self._unanswered_since = None
            for partition in self._partitions.values():
                partition.source_available()
        return answer

    def _report_unanswered(self) -> None:
        """Report that the broker has not answered; the response is still awaited."""
        self._unanswered_since = self._unanswered_since or time.monotonic() - self._report_after_s
        settings = self._cluster.settings
        name = broker(self.node_id, settings)
        message = f"{name} did not answer a fetch request within {self._report_after_s:.0f} s: {cut_off(settings)}"
        for partition in self._partitions.values():
            partition.source_unavailable(message, prolonged=True)

    def _handle_answer(self, answer: FetchAnswer) -> int:
        """Pass each partition its part of the response; returns how many bytes are kept."""
        now, wall = time.monotonic(), time.time()
        committed = self._settings.isolation_level is IsolationLevel.READ_COMMITTED
        kept = 0
        for fetched in answer.partitions:
            self._limit.received(fetched.records)
            partition = self._partitions.get((fetched.topic, fetched.partition))
            offset = self._requested.get(partition) if partition is not None else None
            if partition is None or offset is None:
                continue
            if fetched.error:
                partition.leave_session()
                right = on_topic(Operation.READ, fetched.topic, self._cluster.settings.alias)
                self._on_error(partition, BrokerError(fetched.error, f"fetch {partition.source}", right=right))
                continue
            if not answer.checks_epochs and self._is_unchecked(partition):
                continue
            end_offset = fetched.last_stable_offset if committed else fetched.high_watermark
            if fetched.diverging is not None:
                partition.end_observed(end_offset, now)
                self._on_diverged(partition, offset, fetched.diverging)
                self._updated.add(partition)
                continue
            kept += partition.fetched(offset, fetched, end_offset, now, wall)
            self._updated.add(partition)
            if fetched.preferred_replica >= 0 and fetched.preferred_replica != self.node_id:
                self._on_preferred_replica(partition, fetched.preferred_replica)
        if answer.error == ErrorCode.NONE:
            self._answers.last = now
        return kept

    async def _handle_failure(self, error: ClusterError) -> None:
        partitions = list(self._partitions.values())
        message = str(error)
        now = time.monotonic()
        if not error.retriable:
            for partition in partitions:
                partition.fetch_failed(message, now)
            return
        self._unanswered_since = self._unanswered_since or now
        prolonged = now - self._unanswered_since >= self._report_after_s
        for partition in partitions:
            partition.source_unavailable(message, prolonged=prolonged)
        await self._on_broker_failed(partitions)
