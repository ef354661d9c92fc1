"""How many bytes are requested from a source broker at once: less over a slow link, more over a long one."""

from __future__ import annotations

from flows.partition.timeouts import LONG_LINK_S

MAX_RESPONSE_BYTES = 8 * 1024 * 1024
"""Maximum size of a response from a broker nearby, even if fetch.max.bytes is larger: it is briefly in memory twice (as
received and split into partitions), and at this size the cost per request is negligible."""

MIN_RESPONSE_BYTES = 64 * 1024
"""Smaller responses would not help: the first batch of a response is always complete, and most are of this size."""

MAX_FAR_RESPONSE_BYTES = 32 * 1024 * 1024
"""Maximum size of a response from a broker far away: at 85 ms and 125 MB/s, three quarters of the time are left for
transferring it. A lane promises a fetcher no more than half of its budget anyway."""

LARGE_SHARE = 0.2
SMALL_SHARE = 0.05
"""Part of the time of a full response that is the round trip, during which the link is idle: above the first one, twice
as much is requested of each partition; below the second one, half as much. (Halving doubles it at most, so a size that
was halved is not doubled again.)"""

FULL = 0.75
"""A response with this part of what was requested of it, or of one of its partitions, is full: more was there to fetch.
It is less than all, since a broker returns whole batches."""


class ResponseSize:
    """The sizes to request from one broker, adapted to the link. Times are seconds.

    (A) After a timeout half is requested, and twice as much again while the link is fast enough. Otherwise a response
        that takes longer than the timeout would be requested again, with the same size, for ever.
    (B) The broker answers one request at a time, so the link is idle for a round trip between two responses. Over a
        long link more is requested of each partition until that is a small part of the time.
    """

    __slots__ = ("_is_far", "_may_grow", "_own", "limit", "partition_bytes")

    def __init__(self, partition_bytes: int, *, may_grow: bool) -> None:
        """``partition_bytes``: of each partition by the settings, which must not be exceeded unless it ``may_grow``."""
        self._own = partition_bytes
        self._may_grow = may_grow
        self._is_far = False
        self.limit = MAX_RESPONSE_BYTES
        self.partition_bytes = partition_bytes

    @property
    def _most(self) -> int:
        return MAX_FAR_RESPONSE_BYTES if self._is_far else MAX_RESPONSE_BYTES

    def timed_out(self, requested: int) -> None:
        """No complete response of up to ``requested`` bytes arrived within the timeout."""
        self.limit = max(MIN_RESPONSE_BYTES, min(self.limit, requested) // 2)
        self.partition_bytes = max(self._own, self.partition_bytes // 2)

    def received(self, size: int, elapsed: float, timeout: float) -> None:
        """A response of ``size`` bytes took ``elapsed``. Twice the limit must fit into half of ``timeout``.

        The time includes the broker's wait for data, so that a response with little data proves little.
        """
        if self.limit < self._most and 2 * self.limit * elapsed <= size * timeout / 2:
            self.limit = min(self._most, 2 * self.limit)

    def adapt(self, size: int, largest: int, requested: int, elapsed: float, round_trip: float | None) -> None:
        """Adapt the bytes of a partition to a response of ``size`` bytes for up to ``requested``, which took
        ``elapsed``. ``largest``: bytes of the partition with the most. ``round_trip``: None, if it is unknown."""
        if not self._may_grow or round_trip is None or round_trip <= LONG_LINK_S:
            return
        self._is_far = True
        if largest < FULL * self.partition_bytes and size < FULL * requested:
            return
        if round_trip > LARGE_SHARE * elapsed and largest >= FULL * self.partition_bytes:
            self.partition_bytes = min(MAX_FAR_RESPONSE_BYTES, 2 * self.partition_bytes)
        elif round_trip < SMALL_SHARE * elapsed:
            self.partition_bytes = max(self._own, self.partition_bytes // 2)
