"""Retry state of one target partition."""

from __future__ import annotations

from flows.partition.timeouts import CORRUPT_ATTEMPTS, TIMEOUTS, TIMER_TOLERANCE_S, Timeouts
from flows.target.produce_errors import ProduceError
from mm2.kafka.backoff import Backoff
from mm2.kafka.protocol.error_codes import ErrorCode


class RetryState:
    """Consecutive produce failures of one partition; reset by the first success.

    (A) Pauses grow with the time for which one leader has failed. A new leader starts with the ordinary backoff: other
        brokers can name it before it knows that it leads.
    (B) What is reported, and when the partition fails, depends on the time since the first failure at any leader.
    """

    __slots__ = (
        "_backoff",
        "_corrupt",
        "_failing_for",
        "_failing_since",
        "_leader_failing_for",
        "_leader_failing_since",
        "_not_before",
        "_timeouts",
    )

    def __init__(self, backoff: Backoff, timeouts: Timeouts = TIMEOUTS) -> None:
        self._backoff = backoff
        self._timeouts = timeouts
        self._not_before = 0.0
        self.reset()

    def reset(self) -> None:
        """Reset after the target accepted a batch."""
        self._failing_since: float | None = None
        self._failing_for = 0.0
        self._corrupt = 0
        self._start_with_leader()

    def _start_with_leader(self) -> None:
        self._backoff.reset()
        self._leader_failing_since: float | None = None
        self._leader_failing_for = 0.0

    @property
    def is_retrying(self) -> bool:
        """Whether the last attempt failed."""
        return self._failing_since is not None

    @property
    def is_stuck(self) -> bool:
        """Whether the leader has failed for so long that the partition releases its bytes to others."""
        return self._leader_failing_for > self._timeouts.stuck_after_s

    @property
    def is_prolonged(self) -> bool:
        """Whether attempts have failed for so long that this is reported."""
        return self._failing_for >= self._timeouts.unanswered_report_s

    def may_send(self, now: float) -> bool:
        """Return whether the backoff after the last failure is over."""
        return now >= self._not_before - TIMER_TOLERANCE_S

    def seconds_left(self, now: float) -> float:
        """Return for how long the backoff still lasts."""
        return max(0.0, self._not_before - now)

    def record_failure(self, now: float) -> None:
        """Count one more failure."""
        if self._failing_since is None:
            self._failing_since = now
        if self._leader_failing_since is None:
            self._leader_failing_since = now
        self._failing_for = now - self._failing_since
        self._leader_failing_for = now - self._leader_failing_since

    def back_off(self, now: float) -> float:
        """Start a backoff and return its seconds; nothing may be sent before it is over."""
        delay = self._backoff.next()
        self._not_before = now + delay
        return delay

    def leader_changed(self) -> None:
        """Allow an attempt at the new leader immediately; if it fails, backoff and pauses start over (A)."""
        self._not_before = 0.0
        self._start_with_leader()

    def fetch_delay(self, delay: float) -> float:
        """Return the seconds until a stuck partition fetches again; at least ``delay``."""
        return max(delay, min(self._leader_failing_for * self._timeouts.stuck_share, self._timeouts.stuck_retry_s))

    def is_exhausted(self, error: ProduceError, now: float) -> bool:
        """Return whether a retriable error has persisted beyond its limit, so that the partition should fail."""
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return self._failing_since is not None and now - self._failing_since > self._timeouts.missing_topic_s
        if error.code == ErrorCode.CORRUPT_MESSAGE:
            self._corrupt += 1
            return self._corrupt >= CORRUPT_ATTEMPTS
        return False
