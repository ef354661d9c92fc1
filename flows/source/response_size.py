"""The maximum size of fetch responses that arrive within the request timeout, even over a slow link."""

from __future__ import annotations

MAX_RESPONSE_BYTES = 8 * 1024 * 1024
"""Maximum size of a response, even if fetch.max.bytes is larger: it is briefly in memory twice (as received
and split into partitions), and at this size the cost per request is negligible."""

MIN_RESPONSE_BYTES = 64 * 1024
"""Smaller responses would not help: the first batch of a response is always complete, and most are of this size."""


class ResponseSize:
    """Halves the size requested after a timeout, and doubles it while the link is fast enough.

    Otherwise a response that takes longer than the timeout would be requested again, with the same size, for ever.
    Times are seconds.
    """

    __slots__ = ("limit",)

    def __init__(self) -> None:
        self.limit = MAX_RESPONSE_BYTES

    def timed_out(self, requested: int) -> None:
        """No complete response of up to ``requested`` bytes arrived within the timeout."""
        self.limit = max(MIN_RESPONSE_BYTES, min(self.limit, requested) // 2)

    def received(self, size: int, elapsed: float, timeout: float) -> None:
        """A response of ``size`` bytes took ``elapsed``. Twice the limit must fit into half of ``timeout``.

        The time includes the broker's wait for data, so that a response with little data proves little.
        """
        if self.limit < MAX_RESPONSE_BYTES and 2 * self.limit * elapsed <= size * timeout / 2:
            self.limit = min(MAX_RESPONSE_BYTES, 2 * self.limit)
