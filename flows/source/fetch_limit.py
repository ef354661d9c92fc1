"""The limit of what one source task fetches: its share of ``mm2.max.bytes.per.second``
(`mm2.core.lanes.fetch_shares`)."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable

from mm2.core.lanes.fetch_shares import FetchTotals

BURST_S = 1.0
"""After a pause, so many seconds of the rate may be fetched at once."""

LEAST_FILLED = 4
"""A request is sent when a quarter of a burst may be fetched: smaller responses would often end with a part of a batch,
which is fetched again, and would cost more CPU."""

LEAST_OF_BROKER = 8
"""A broker with few of the partitions is asked for at least an eighth of what may be fetched, since the other
partitions may be idle. What brokers send beyond the limit together is paid off."""

_LENGTH = struct.Struct(">i")
_LENGTH_AT = 8  # after the offset, in every format
_LENGTH_END = 12


class TokenBucket:
    """Bytes that may be fetched: they grow by ``rate`` per second, up to `BURST_S`. No clock: times are seconds.

    (A) In any time, at most ``rate`` times its seconds, a burst, and what exceeded the last request are spent.
    (B) More than the bucket has can be spent, because a batch arrives as a whole. It is paid off before the next
        request.
    (C) It starts empty, so that a source task that restarts again and again has no burst each time.
    """

    __slots__ = ("_at", "_level", "rate")

    def __init__(self, rate: int, now: float) -> None:
        self.rate = rate
        self._level = 0.0
        self._at = now

    def change(self, rate: int, now: float) -> None:
        """Continue with another rate. What is owed stays owed."""
        self._fill(now)
        self.rate = rate
        self._level = min(self._level, rate * BURST_S)

    def wait_s(self, now: float) -> float:
        """Return for how many seconds nothing may be requested."""
        self._fill(now)
        return max(0.0, (self.rate * BURST_S / LEAST_FILLED - self._level) / self.rate)

    def available(self, now: float) -> int:
        """Return how many bytes may be requested; at least 1, for which a broker sends one batch."""
        self._fill(now)
        return max(1, int(self._level))

    def spend(self, count: int, now: float) -> None:
        """So many bytes were fetched."""
        self._fill(now)
        self._level -= count

    def _fill(self, now: float) -> None:
        self._level = min(self.rate * BURST_S, self._level + (now - self._at) * self.rate)
        self._at = now


class FetchLimit:
    """The limit that the brokers of one source task share; without a ``rate``, nothing waits.

    `flows.source.broker_fetcher.BrokerFetcher` asks before each request, on the event loop of the lane, and
    `flows.lane.lease_client.LeaseClient` sets the rate, on the same loop.

    (A) Nothing is reserved for a request in flight: one that waits for new records would keep others from fetching.
        `LEAST_OF_BROKER` limits what requests at the same time can exceed.
    (B) Brokers divide what may be fetched by the number of their partitions. Between its partitions, a broker
        alternates (`mm2.kafka.client.fetch_session`).
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._bucket: TokenBucket | None = None
        self._changed = asyncio.Event()
        self._partitions: dict[int, int] = {}  # of each broker
        self._waiting = 0
        self._waiting_since = 0.0
        self._bytes = 0
        self._limited_s = 0.0

    @property
    def rate(self) -> int | None:
        """Bytes per second; None: no limit."""
        return None if self._bucket is None else self._bucket.rate

    def set_rate(self, rate: int | None) -> None:
        """Apply another rate at once, also to what waits."""
        if rate == self.rate:
            return
        now = self._clock()
        if rate is None:
            self._bucket = None
        elif self._bucket is None:
            self._bucket = TokenBucket(rate, now)
        else:
            self._bucket.change(rate, now)
        self._changed.set()

    @property
    def totals(self) -> FetchTotals | None:
        """What was fetched, and for how long the limit was waited for; None: there is no limit."""
        if self._bucket is None:
            return None
        waiting = self._clock() - self._waiting_since if self._waiting else 0.0
        return FetchTotals(bytes=self._bytes, limited_s=round(self._limited_s + waiting, 3))

    @property
    def must_wait(self) -> bool:
        """Whether a request would have to wait now."""
        return self._bucket is not None and self._bucket.wait_s(self._clock()) > 0

    async def wait(self) -> None:
        """Wait until a request may be sent."""
        if not self.must_wait:
            return
        if not self._waiting:
            self._waiting_since = self._clock()
        self._waiting += 1
        try:
            while self._bucket is not None and (delay := self._bucket.wait_s(self._clock())) > 0:
                self._changed.clear()
                try:
                    async with asyncio.timeout(delay):
                        await self._changed.wait()
                except TimeoutError:
                    pass
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._limited_s += self._clock() - self._waiting_since

    def request_bytes(self, broker: int, partitions: int, most: int) -> int:
        """Return how many bytes, at most ``most``, to request from a broker with so many ``partitions``."""
        if self._bucket is None:
            return most
        self._partitions[broker] = partitions
        available, total = self._bucket.available(self._clock()), sum(self._partitions.values())
        share = max(available * partitions // total, available // LEAST_OF_BROKER)
        return max(1, min(most, share))

    def leave(self, broker: int) -> None:
        """Nothing is fetched from the broker at present."""
        self._partitions.pop(broker, None)

    def received(self, records: bytes) -> None:
        """A response contains these records of a partition."""
        if self._bucket is not None:
            count = complete_bytes(records)
            self._bytes += count
            self._bucket.spend(count, self._clock())


def complete_bytes(records: bytes) -> int:
    """Return the size of the complete batches, or old messages, at the start of ``records``; the rest comes again."""
    at, end = 0, len(records)
    while at + _LENGTH_END <= end:
        length = _LENGTH.unpack_from(records, at + _LENGTH_AT)[0]
        if length < 0 or at + _LENGTH_END + length > end:
            break
        at += _LENGTH_END + length
    return at
