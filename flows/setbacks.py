"""The target refuses, again and again: since when, what to wait for, when to stop hoping."""

from __future__ import annotations

from flows.outcomes import Refusal
from flows.patience import CORRUPT_ATTEMPTS, EARLY_S, MISSING_PATIENCE_S, SILENT_S, STUCK_AFTER_S, STUCK_RETRY_S
from mm2.kafka.backoff import Backoff
from mm2.kafka.error_codes import ErrorCode


class Setbacks:
    """One partition's refusals in a row, until ``over``."""

    __slots__ = ("_backoff", "_corrupt", "_not_before", "_since", "_stuck_for")

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._not_before = 0.0
        self._since: float | None = None
        self._stuck_for = 0.0
        self._corrupt = 0

    @property
    def any(self) -> bool:
        """Whether the last attempt was refused."""
        return self._since is not None

    @property
    def stuck(self) -> bool:
        """Whether that has been so for long enough to make room for others."""
        return self._stuck_for > STUCK_AFTER_S

    @property
    def lasting(self) -> bool:
        """Whether that has been so for long enough to be told of as more than a hiccup."""
        return self._stuck_for >= SILENT_S

    def over(self) -> None:
        """The target took something."""
        self._backoff.reset()
        self._since = None
        self._stuck_for = 0.0
        self._corrupt = 0

    def may_send(self, now: float) -> bool:
        """Whether the pause after the last refusal is over."""
        return now >= self._not_before - EARLY_S

    def count(self, now: float) -> None:
        """One more refusal."""
        if self._since is None:
            self._since = now
        self._stuck_for = now - self._since

    def pause(self, now: float) -> float:
        """Seconds to wait before the next attempt; nothing may be sent until then."""
        delay = self._backoff.next()
        self._not_before = now + delay
        return delay

    def fetch_pause(self, delay: float) -> float:
        """Seconds to wait before something is fetched again for a stuck partition; at least ``delay``."""
        return max(delay, min(self._stuck_for / 4, STUCK_RETRY_S))

    def hopeless(self, refusal: Refusal, now: float) -> bool:
        """Whether a retriable error has come back so often, or for so long, that waiting will not help."""
        if refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return self._since is not None and now - self._since > MISSING_PATIENCE_S
        if refusal.code == ErrorCode.CORRUPT_MESSAGE:
            self._corrupt += 1
            return self._corrupt >= CORRUPT_ATTEMPTS
        return False
