"""The target's side of a slot: for each target broker, requests that carry one batch of each ready partition."""

from __future__ import annotations

import asyncio
import time

from flows.budget import ByteBudget
from flows.copy import PartitionCopy
from flows.line import Place
from flows.outcomes import DUPLICATE, Refusal, Verdict, refused, unanswered
from flows.patience import SILENT_S
from flows.producer_ids import ProducerIds
from flows.surroundings import Spawn
from mm2.core.client_settings import ProduceSettings
from mm2.kafka.cluster import Cluster
from mm2.kafka.diagnosis import broker, cut_off
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError
from mm2.kafka.raw_produce import ProduceAnswer, ProduceRequest

PURPOSE = "produce"
PROBE_PURPOSE = "probe"
"""A connection of its own for partitions that were refused: the broker answers a connection's requests one by one, and
may take its time with one whose replicas are behind."""

REPLICAS_WAIT_MS = 5_000
"""How long a broker may wait for its replicas before it says so instead; meanwhile nothing else of that connection is
answered. Sent again, an idempotent batch is known again, so it may be less than Java's request.timeout.ms."""

ANSWER_ROOM_MS = 5_000
"""For the broker's own timeout (request.timeout.ms) to come back as an answer, which says more than silence."""


class Producing:
    """Brings each partition with something to send to its leader, and gives it a producer id.

    ``changed`` is to be called whenever a partition may have something to send.
    """

    def __init__(self, cluster: Cluster, settings: ProduceSettings, budget: ByteBudget, spawn: Spawn) -> None:
        self.cluster = cluster
        self.settings = settings
        self.budget = budget
        self.spawn = spawn
        self._brokers: dict[tuple[int, bool], BrokerProduce] = {}
        self._leaderless: set[PartitionCopy] = set()
        self._routing = False
        self.producers = ProducerIds(cluster, settings, spawn)

    def changed(self, copy: PartitionCopy) -> None:
        """A partition may have something to send."""
        if not copy.has_unsent:
            return
        leader = self.cluster.cached_leader(copy.target)
        if leader is not None:
            self._broker(leader.node_id, copy.outlet.setbacks.any).offer(copy)
        elif not copy.outlet.line.in_flight:
            self._leaderless.add(copy)
            if not self._routing:
                self._routing = True
                self.spawn(self._route())

    @property
    def replicas_wait_ms(self) -> int:
        """How long a broker may wait for its replicas."""
        wait_ms = self.settings.request_timeout_ms
        return min(wait_ms, REPLICAS_WAIT_MS) if self.producers.idempotent else wait_ms

    @property
    def share_of_a_broker(self) -> int:
        """Bytes that may be in flight to one broker: what all together hold is a fetcher's share of the budget."""
        return self.budget.share // max(1, len(self._brokers))

    def leader_moved(self, copy: PartitionCopy) -> None:
        """Its broker does not lead it any more, or does not answer."""
        self.cluster.forget(copy.target)

    def _broker(self, node_id: int, probing: bool) -> BrokerProduce:
        broker = self._brokers.get((node_id, probing))
        if broker is None:
            broker = self._brokers[node_id, probing] = BrokerProduce(node_id, self, probing=probing)
            self.spawn(broker.run())
        return broker

    async def _route(self) -> None:
        try:
            while self._leaderless:
                copies, self._leaderless = self._leaderless, set()
                try:
                    leaders = await self.cluster.leaders([copy.target for copy in copies])
                except ClusterError as error:
                    for copy in copies:
                        copy.unroutable(unanswered(error), time.monotonic())
                    continue
                for copy in copies:
                    leader = leaders[copy.target]
                    if isinstance(leader, BrokerError):
                        copy.unroutable(refused(leader.code, None, ()), time.monotonic())
                    else:
                        self._broker(leader.node_id, copy.outlet.setbacks.any).offer(copy)
        finally:
            self._routing = False


class BrokerProduce:
    """Sends to one broker over one connection, several requests at a time; what was refused goes over another.

    (A) At most ``max_in_flight`` requests are under way, and no more are added once they hold their part of the
        budget's share: brokers that do not answer leave room for the partitions of the others.
    (B) A partition has one batch in a request; its next one goes into the next request.
    (C) Partitions take turns.
    (D) A partition changes the connection only while none of its batches is in flight: after a refusal its next batch
        goes alone (`flows.line.Line`, C).
    (E) A broker that owes answers and gives none for SILENT_S is told of, by the partitions that wait for it.
    """

    def __init__(self, node_id: int, producing: Producing, *, probing: bool) -> None:
        self._node_id = node_id
        self._probing = probing
        self._producing = producing
        self._cluster = producing.cluster
        self._settings = producing.settings
        self._ready: dict[PartitionCopy, None] = {}
        self._requests = 0
        self._bytes = 0
        self._owed: dict[int, list[tuple[PartitionCopy, Place]]] = {}  # by an identity of the request
        self._overdue: asyncio.TimerHandle | None = None
        self._not_before = 0.0
        self._news = asyncio.Event()

    def offer(self, copy: PartitionCopy) -> None:
        """A partition that this broker leads may have something to send."""
        self._ready[copy] = None
        self._news.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._news.wait()
            if (throttled := self._not_before - time.monotonic()) > 0:
                await asyncio.sleep(throttled)
            self._news.clear()
            self._pump()

    def _pump(self) -> None:
        while self._ready and self._requests < self._settings.max_in_flight:
            if self._requests and self._bytes >= self._producing.share_of_a_broker:
                return
            places, size = self._load()
            if not places:
                return
            self._requests += 1
            self._bytes += size
            request = ProduceRequest(
                acks=self._settings.acks,
                timeout_ms=self._producing.replicas_wait_ms,
                batches={copy.target: place.batch.wire() for copy, place in places},
            )
            self._producing.spawn(self._send(request, places, size))

    def _load(self) -> tuple[list[tuple[PartitionCopy, Place]], int]:
        """The next request's batches and their bytes."""
        now = time.monotonic()
        places: list[tuple[PartitionCopy, Place]] = []
        again: list[PartitionCopy] = []
        size = 0
        while self._ready and size < self._settings.max_request_size:
            copy = next(iter(self._ready))
            del self._ready[copy]
            if copy.outlet.setbacks.any is not self._probing:
                self._producing.changed(copy)
                continue
            if copy.outlet.line.producer is None:
                self._producing.producers.supply(copy)
            if not copy.sendable(now):
                continue
            place = copy.take(now)
            if place is None:
                continue
            places.append((copy, place))
            size += place.batch.size
            if copy.sendable(now):
                again.append(copy)
        self._ready.update(dict.fromkeys(again))
        return places, size

    async def _send(self, request: ProduceRequest, places: list[tuple[PartitionCopy, Place]], size: int) -> None:
        settings = self._settings
        self._owe(request, places)
        try:
            answer = await self._cluster.send(
                self._node_id,
                request,
                purpose=PROBE_PURPOSE if self._probing else PURPOSE,
                timeout_ms=settings.request_timeout_ms + ANSWER_ROOM_MS,
                expect_response=settings.acks != 0,
            )
        except ClusterClosed:
            raise
        except ClusterError as error:
            self._unanswered(places, error)
        else:
            self._answered(places, answer)
        finally:
            self._heard(request)
            self._requests -= 1
            self._bytes -= size
            if self._ready:
                self._news.set()

    def _owe(self, request: ProduceRequest, places: list[tuple[PartitionCopy, Place]]) -> None:
        self._owed[id(request)] = places
        if self._overdue is None:
            self._overdue = asyncio.get_running_loop().call_later(SILENT_S, self._silent)

    def _heard(self, request: ProduceRequest) -> None:
        """The broker, or the connection to it, said something: the clock begins anew for what it still owes."""
        del self._owed[id(request)]
        if self._overdue is not None:
            self._overdue.cancel()
        owes = bool(self._owed)
        self._overdue = asyncio.get_running_loop().call_later(SILENT_S, self._silent) if owes else None

    def _silent(self) -> None:
        """Nothing was heard for long; it is waited for on."""
        self._overdue = None
        settings = self._cluster.settings
        words = f"{broker(self._node_id, settings)} gives no answer for {SILENT_S:.0f} s: {cut_off(settings)}"
        for places in self._owed.values():
            for copy, _ in places:
                copy.unanswered(words)

    def _unanswered(self, places: list[tuple[PartitionCopy, Place]], error: ClusterError) -> None:
        now = time.monotonic()
        refusal = unanswered(error)
        for copy, place in places:
            self._refused(copy, place, refusal, now)

    def _answered(self, places: list[tuple[PartitionCopy, Place]], answer: ProduceAnswer | None) -> None:
        now, wall = time.monotonic(), time.time()
        if answer is None:  # acks=0: nobody will ever tell
            for copy, place in places:
                copy.acked(place, -1, now, wall)
            return
        if answer.throttle_ms:
            self._not_before = now + answer.throttle_ms / 1000
        results = {(result.topic, result.partition): result for result in answer.partitions}
        for copy, place in places:
            result = results.get((copy.target.topic, copy.target.partition))
            if result is None:
                missing = refused(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer leaves this partition out", ())
                self._refused(copy, place, missing, now)
            elif not result.error:
                copy.acked(place, result.base_offset, now, wall)
            elif result.error == DUPLICATE:
                copy.acked(place, -1, now, wall)
            else:
                self._refused(copy, place, refused(result.error, result.message, result.record_errors), now)

    def _refused(self, copy: PartitionCopy, place: Place, refusal: Refusal, now: float) -> None:
        if refusal.leader_moved:
            self._producing.leader_moved(copy)
        if refusal.verdict is Verdict.NOT_IDEMPOTENT:
            self._producing.producers.deny(refusal.words)
        copy.refused(place, refusal, now)
