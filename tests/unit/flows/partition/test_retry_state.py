"""`flows.partition.retry_state`: what depends on the leader, and what on the time since the first failure."""

from __future__ import annotations

from flows.partition.retry_state import RetryState
from flows.partition.timeouts import TIMEOUTS, Timeouts
from flows.target.produce_errors import from_response
from mm2.kafka.backoff import Backoff
from mm2.kafka.protocol.error_codes import ErrorCode

STUCK_AFTER_S = TIMEOUTS.stuck_after_s
MISSING = from_response(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def failing(seconds: float, timeouts: Timeouts = TIMEOUTS) -> RetryState:
    retry = RetryState(Backoff(100, 1_000), timeouts)
    retry.record_failure(0.0)
    retry.record_failure(seconds)
    return retry


def test_a_new_leader_starts_without_a_failure_of_its_own() -> None:
    retry = failing(2 * STUCK_AFTER_S)
    assert retry.is_stuck
    retry.back_off(2 * STUCK_AFTER_S)
    assert not retry.may_send(2 * STUCK_AFTER_S)
    retry.leader_changed()
    assert retry.may_send(2 * STUCK_AFTER_S)
    assert not retry.is_stuck
    retry.record_failure(2 * STUCK_AFTER_S)
    assert (retry.is_stuck, retry.fetch_delay(0.1)) == (False, 0.1)
    assert retry.back_off(2 * STUCK_AFTER_S) <= 0.12, "the first backoff, with its jitter"
    retry.record_failure(3.5 * STUCK_AFTER_S)
    assert retry.is_stuck


def test_reports_and_limits_count_from_the_first_failure_at_any_leader() -> None:
    retry = failing(TIMEOUTS.unanswered_report_s - 1)
    retry.leader_changed()
    assert retry.is_retrying
    assert not retry.is_prolonged
    retry.record_failure(TIMEOUTS.unanswered_report_s)
    assert retry.is_prolonged
    assert not retry.is_exhausted(MISSING, TIMEOUTS.missing_topic_s)
    assert retry.is_exhausted(MISSING, TIMEOUTS.missing_topic_s + 1)
    retry.reset()
    assert (retry.is_retrying, retry.is_prolonged, retry.is_stuck) == (False, False, False)


def test_pauses_are_a_share_of_the_time_up_to_the_longest() -> None:
    timeouts = Timeouts(stuck_after_s=4.0, stuck_share=0.5, stuck_retry_s=7.0)
    assert not failing(4.0, timeouts).is_stuck
    assert failing(4.1, timeouts).is_stuck
    assert [failing(seconds, timeouts).fetch_delay(1.0) for seconds in (1.0, 6.0, 60.0)] == [1.0, 3.0, 7.0]
