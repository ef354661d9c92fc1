"""Producing for one source task: requests to each target broker with one batch per partition, and the
gate that limits how many are sent at once."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Protocol

from flows.lane.byte_budget import ByteBudget
from flows.lane.loop_turns import LoopTurns
from flows.partition.in_flight import InFlightBatch
from flows.partition.replicator import PartitionReplicator
from flows.partition.timeouts import LONG_LINK_S, TIMEOUTS, Timeouts
from flows.source_task.spawn import Spawn
from flows.target.leader_watch import LeaderWatch
from flows.target.produce_errors import DUPLICATE, ErrorAction, ProduceError, from_exception, from_response
from mm2.core.lanes.bottlenecks import ClusterLook
from mm2.core.settings.client import ProduceSettings
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.connection.diagnosis import broker, cut_off
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.produce_request import ProduceAnswer, ProduceRequest


class SendGate(Protocol):
    """``transactional_id`` belongs to the batches if they are transactional."""

    @property
    def transactional_id(self) -> str | None: ...

    def admits(self, partition: PartitionReplicator, /) -> bool:
        """Return whether the next batch may be sent now. If not, the partition is offered to the producer again."""

    def sent(self, size: int, /) -> None:
        """A batch of ``size`` bytes is being sent."""

    def answered(self) -> None:
        """A request was answered, or failed."""


class ProducerIdSource(Protocol):
    """Gives partitions the producer id to send with. ``warning``: why it is weaker than it should be."""

    warning: str | None

    @property
    def is_idempotent(self) -> bool:
        """Whether the target recognizes a batch that is sent twice."""

    def assign(self, partition: PartitionReplicator, /) -> None:
        """Assign the partition a producer id that it has not used, now or as soon as there is one."""

    def disable_idempotence(self, reason: str, /) -> None:
        """The target does not permit idempotent writes."""


class AlwaysOpen:
    """At least once: batches are sent outside transactions."""

    transactional_id = None

    def admits(self, _: PartitionReplicator) -> bool:
        return True

    def sent(self, size: int) -> None: ...

    def answered(self) -> None: ...


log = logging.getLogger(__name__)

PURPOSE = "produce"
PROBE_PURPOSE = "probe"
"""A separate connection for partitions that are retrying: a broker answers the requests of a connection one by one, and
one whose replicas are behind can take long."""

REPLICAS_WAIT_MS = 5_000
"""How long a broker may wait for its replicas before it returns an error; until then it answers no other request of the
connection. An idempotent batch can be sent again, so this can be less than Java's request.timeout.ms."""

RESPONSE_MARGIN_MS = 5_000
"""Additional time for the broker to return its own timeout error, which is more informative than no response."""

ROOM_CHECK_S = 0.1
"""How often partitions that wait to begin heavy packing check whether others have finished theirs."""

Batches = list[tuple[PartitionReplicator, InFlightBatch]]


class Producer:
    """Offers each partition with batches to send to the producer of its leader.

    `update` must be called whenever a partition may have something to send.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: ProduceSettings,
        budget: ByteBudget,
        spawn: Spawn,
        *,
        producer_ids: ProducerIdSource,
        gate: SendGate,
        turns: LoopTurns,
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        """``turns``: of all producers of the lane."""
        self.timeouts = timeouts
        self.turns = turns
        self.cluster = cluster
        self.settings = settings
        self.spawn = spawn
        self.producer_ids = producer_ids
        self.gate = gate
        self._budget = budget
        self._brokers: dict[tuple[int, bool], BrokerProducer] = {}
        self._leaderless: set[PartitionReplicator] = set()
        self._routing = False
        self._leader_watch = LeaderWatch(cluster, spawn)

    def update(self, partition: PartitionReplicator) -> None:
        """A partition may have something to send."""
        if not partition.has_unsent:
            return
        leader = self.cluster.cached_leader(partition.target)
        if leader is not None:
            self._offer(partition, leader.node_id)
        elif not partition.batches_in_flight:
            self._leaderless.add(partition)
            if not self._routing:
                self._routing = True
                self.spawn(self._route())

    def remove(self, partition: PartitionReplicator) -> None:
        """The partition has left the source task."""
        self._leader_watch.remove(partition)

    def failed(self, partition: PartitionReplicator, entry: InFlightBatch, error: ProduceError, node_id: int) -> None:
        """Broker ``node_id`` did not acknowledge a batch."""
        args = partition.source, entry.batch.next_offset - 1, partition.target, node_id, error.action, error.message
        log.debug("%s: batch up to offset %d for %s was not acknowledged by broker %d: %s: %s", *args)
        if error.leader_moved:
            leader = self.cluster.cached_leader(partition.target)
            if leader is not None and leader.node_id == node_id:
                self.cluster.forget(partition.target)
        partition.produce_failed(entry, error, time.monotonic())
        if error.leader_moved:
            self._leader_watch.add(partition, node_id)

    @property
    def throttled(self) -> float:
        """For how many seconds a broker is throttling; 0: none is."""
        until = max((one.throttled_until for one in self._brokers.values()), default=0.0)
        return max(0.0, until - time.monotonic())

    def look(self, partition: PartitionReplicator, now: float) -> ClusterLook:
        """Return how the leader of the remote partition is seen now."""
        leader = self.cluster.cached_leader(partition.target)
        broker = None if leader is None else self._brokers.get((leader.node_id, partition.is_retrying))
        return ClusterLook() if broker is None else broker.look(now)

    def disconnect(self) -> None:
        """Close the connections to brokers with requests in flight, which then fail."""
        for one in self._brokers.values():
            one.disconnect()

    @property
    def replicas_wait_ms(self) -> int:
        """How long a broker may wait for its replicas."""
        wait_ms = self.settings.request_timeout_ms
        return min(wait_ms, REPLICAS_WAIT_MS) if self.producer_ids.is_idempotent else wait_ms

    @property
    def broker_share(self) -> int:
        """Bytes that may be in flight to one broker: together, a fetcher's share of the budget."""
        return self._budget.share // max(1, len(self._brokers))

    def _offer(self, partition: PartitionReplicator, node_id: int) -> None:
        key = node_id, partition.is_retrying
        broker = self._brokers.get(key)
        if broker is None:
            broker = self._brokers[key] = BrokerProducer(node_id, self, probing=partition.is_retrying)
            self.spawn(broker.run())
        broker.offer(partition)

    async def _route(self) -> None:
        try:
            while self._leaderless:
                partitions, self._leaderless = self._leaderless, set()
                try:
                    leaders = await self.cluster.leaders([partition.target for partition in partitions])
                except ClusterError as error:
                    for partition in partitions:
                        self._leader_unavailable(partition, from_exception(error))
                    continue
                for partition in partitions:
                    leader = leaders[partition.target]
                    if isinstance(leader, BrokerError):
                        self._leader_unavailable(partition, from_response(leader.code))
                    else:
                        self._offer(partition, leader.node_id)
        finally:
            self._routing = False

    def _leader_unavailable(self, partition: PartitionReplicator, error: ProduceError) -> None:
        partition.leader_unavailable(error, time.monotonic())
        self._leader_watch.add(partition, None)


class BrokerProducer:
    """Sends to one broker over one connection, with several requests in flight; retrying partitions use another.

    (A) At most ``max_in_flight`` requests are in flight, and no more are added once they hold their part of the
        budget's share: brokers that do not answer leave room for the partitions of the others.
    (B) A request contains one batch per partition; the partition's next batch goes into the next request.
    (C) Partitions take turns.
    (D) A partition changes the connection only while none of its batches is in flight: after a failure its next batch
        is sent alone (`flows.partition.in_flight.InFlightBatches`, C).
    (E) A broker that does not answer within `Timeouts.unanswered_report_s` is reported for the partitions that wait for
        it. Throttle times do not count: it reads what was sent meanwhile afterwards (KIP-219).
    (F) Packing is interrupted when the turn is over (`LoopTurns`). Light packing continues first in the next turn, and
        heavy packing after the other partitions, so that these wait for a turn, not for a batch of a million records.
    (G) A broker that throttles gets no request until the throttle time is over, and then one at a time: others would
        wait behind it for the next throttle time, which can be longer than the request timeout.
    """

    def __init__(self, node_id: int, producer: Producer, *, probing: bool) -> None:
        self._node_id = node_id
        self._probing = probing
        self._purpose = PROBE_PURPOSE if probing else PURPOSE
        self._producer = producer
        self._producer_ids = producer.producer_ids
        self._gate = producer.gate
        self._turns = producer.turns
        self._cluster = producer.cluster
        self._settings = producer.settings
        self._report_after_s = producer.timeouts.unanswered_report_s
        self._ready: dict[PartitionReplicator, None] = {}
        self._waiting: dict[PartitionReplicator, None] = {}  # until heavy packing of others is finished
        self._requests = 0
        self._bytes = 0
        self._unanswered: dict[int, Batches] = {}  # by the identity of the request
        self._overdue: asyncio.TimerHandle | None = None
        self.throttled_until = 0.0
        self._is_throttled = False  # the last answer had a throttle time
        self._answer_s: float | None = None  # of the last request that was answered
        self._changed = asyncio.Event()

    def look(self, now: float) -> ClusterLook:
        """Return how the broker is seen now."""
        return ClusterLook(
            is_throttling=now < self.throttled_until,
            answer_s=self._answer_s,
            round_trip_s=self._cluster.round_trip_of(self._node_id, self._purpose),
        )

    def disconnect(self) -> None:
        """Close the connection if requests are in flight, which then fail."""
        if self._requests:
            self._cluster.disconnect(self._node_id, self._purpose)

    def offer(self, partition: PartitionReplicator) -> None:
        """A partition that this broker leads may have something to send."""
        self._ready[partition] = None
        self._changed.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._changed.wait()
            if (throttled := self.throttled_until - time.monotonic()) > 0:
                await asyncio.sleep(throttled)
            async with self._turns:
                self._changed.clear()
                if self._send_ready():
                    self._changed.set()

    def _send_ready(self) -> bool:
        """Send until the turn is over; return whether there is more to do."""
        while self._ready and self._requests < (1 if self._is_throttled else self._settings.max_in_flight):
            if self._requests and self._bytes >= self._producer.broker_share:
                return False
            batches, size = self._collect()
            if not batches:
                return bool(self._ready)
            self._requests += 1
            self._bytes += size
            request = ProduceRequest(
                acks=self._settings.acks,
                timeout_ms=self._producer.replicas_wait_ms,
                batches={partition.target: entry.batch.wire() for partition, entry in batches},
                transactional_id=self._gate.transactional_id,
            )
            self._producer.spawn(self._send(request, batches, size))
            if self._turns.is_over():
                return bool(self._ready)
        return False

    def _collect(self) -> tuple[Batches, int]:
        """Return the next request's batches and their total bytes, as far as they are packed within the turn."""
        now = time.monotonic()
        batches: Batches = []
        first: list[PartitionReplicator] = []
        again: list[PartitionReplicator] = []
        size = 0
        turns, is_over = self._turns, False
        is_far = (self._cluster.round_trip_of(self._node_id, self._purpose) or 0.0) > LONG_LINK_S
        while self._ready and size < self._settings.max_request_size and not is_over:
            partition = next(iter(self._ready))
            del self._ready[partition]
            if partition.is_retrying is not self._probing:
                self._producer.update(partition)
                continue
            if partition.needs_producer_id:
                self._producer_ids.assign(partition)
            if not (partition.can_send(now) and self._gate.admits(partition)):
                partition.abandon_packing()  # it can wait for long
                continue
            is_heavy = partition.packs_heavily
            if is_heavy and not turns.may_begin(partition):
                self._wait_for_room(partition)
                continue
            partition.target_is_far = is_far
            entry = partition.next_batch(now, turns.is_over)
            is_over = turns.is_over()
            if entry is None:
                if not partition.is_packing:
                    turns.finished(partition)
                elif is_heavy:
                    turns.interrupted(partition)
                    again.append(partition)
                else:
                    first.append(partition)
                continue
            turns.finished(partition)
            batches.append((partition, entry))
            size += entry.batch.size
            self._gate.sent(entry.batch.size)
            if partition.can_send(now):
                again.append(partition)
        self._ready = dict.fromkeys([*first, *self._ready, *again])
        return batches, size

    def _wait_for_room(self, partition: PartitionReplicator) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_later(ROOM_CHECK_S, self._check_room)
        self._waiting[partition] = None

    def _check_room(self) -> None:
        self._ready.update(self._waiting)
        self._waiting.clear()
        self._changed.set()

    async def _send(self, request: ProduceRequest, batches: Batches, size: int) -> None:
        settings, sent_at = self._settings, time.monotonic()
        self._unanswered[id(request)] = batches
        if self._overdue is None:
            self._start_timer()
        try:
            answer = await self._cluster.send(
                self._node_id,
                request,
                purpose=self._purpose,
                timeout_ms=settings.request_timeout_ms + RESPONSE_MARGIN_MS,
                expect_response=settings.acks != 0,
            )
        except ClusterClosed:
            raise
        except ClusterError as error:
            failure = from_exception(error)
            for partition, entry in batches:
                self._failed(partition, entry, failure)
        except Exception as error:  # it may have been sent
            log.exception("unexpected error while producing to %s", broker(self._node_id, self._cluster.settings))
            failure = ProduceError(action=ErrorAction.FAIL, message=f"unexpected error: {error!r}", maybe_appended=True)
            for partition, entry in batches:
                self._failed(partition, entry, failure)
        else:
            self._answer_s = time.monotonic() - sent_at
            self._handle_answer(batches, answer)
        finally:
            del self._unanswered[id(request)]
            if self._overdue is not None:
                self._overdue.cancel()
                self._overdue = None
            if self._unanswered:  # the broker has answered or the connection has failed: restart the timeout
                self._start_timer()
            self._requests -= 1
            self._bytes -= size
            self._gate.answered()
            if self._ready:
                self._changed.set()

    def _start_timer(self) -> None:
        throttled_s = max(0.0, self.throttled_until - time.monotonic())
        delay_s = throttled_s + self._report_after_s
        self._overdue = asyncio.get_running_loop().call_later(delay_s, self._report_unanswered)

    def _report_unanswered(self) -> None:
        """Report that the broker has not answered; the responses are still awaited."""
        self._overdue = None
        settings = self._cluster.settings
        name = broker(self._node_id, settings)
        reason = f"{name} did not answer within {self._report_after_s:.0f} s: {cut_off(settings)}"
        for batches in self._unanswered.values():
            for partition, _ in batches:
                message = f"cannot copy {partition.source} to {partition.target}: {reason}"
                partition.target_unavailable(message, prolonged=True)

    def _handle_answer(self, batches: Batches, answer: ProduceAnswer | None) -> None:
        now, wall = time.monotonic(), time.time()
        if answer is None:  # acks=0: there are no responses
            for partition, entry in batches:
                partition.acknowledged(entry, -1, now, wall)
            return
        self._is_throttled = answer.throttle_ms > 0
        if self._is_throttled:
            self.throttled_until = now + answer.throttle_ms / 1000
        results = {(result.topic, result.partition): result for result in answer.partitions}
        for partition, entry in batches:
            result = results.get((partition.target.topic, partition.target.partition))
            if result is None:
                missing = from_response(
                    ErrorCode.UNKNOWN_SERVER_ERROR, "the response contains no result for this partition"
                )
                self._failed(partition, entry, missing)
            elif not result.error:
                partition.acknowledged(entry, result.base_offset, now, wall)
            elif result.error == DUPLICATE:
                partition.acknowledged(entry, -1, now, wall)
            else:
                error = from_response(result.error, result.message, result.record_errors)
                self._failed(partition, entry, error)

    def _failed(self, partition: PartitionReplicator, entry: InFlightBatch, error: ProduceError) -> None:
        if error.action is ErrorAction.DISABLE_IDEMPOTENCE:
            self._producer_ids.disable_idempotence(error.message)
        self._producer.failed(partition, entry, error, self._node_id)
