"""When the errors of a target partition have persisted for too long, as for batches that pass through."""

from __future__ import annotations

from flows.partition.retry_state import RetryState
from flows.partition.timeouts import TIMEOUTS, Timeouts
from flows.target.produce_errors import of_record
from mm2.kafka.backoff import Backoff
from mm2.kafka.errors import ClusterError


class RoutedRetryLimit:
    """Implements `mm2.kafka.logs.producer_queue.RetryLimit` with the rules of `RetryState`."""

    def __init__(self, timeouts: Timeouts = TIMEOUTS) -> None:
        self._state = RetryState(Backoff(0, 0), timeouts)  # the producer has its own backoff

    def is_exceeded(self, error: ClusterError, now: float) -> bool:
        """Count a failure, and return whether the records should fail with it."""
        is_exceeded = self._state.is_exhausted(of_record(error), now)
        self._state.record_failure(now)
        return is_exceeded

    def reset(self) -> None:
        """The target has stored a batch."""
        self._state.reset()
