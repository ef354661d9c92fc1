"""`flows.partition.replicator` step by step. The property tests run it against a model of a broker."""

from __future__ import annotations

import pytest

from flows.batch.choice import BatchRules
from flows.batch.header import HEADER_BYTES
from flows.batch.target_batch import ProducerId
from flows.partition.timeouts import CORRUPT_ATTEMPTS, TIMEOUTS
from flows.source.completed_fetch import BATCH_OVERHEAD
from flows.target.produce_errors import from_exception, from_response
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.task_states import TaskState
from mm2.core.offsets.connect_offsets import RECREATED_TOPIC
from mm2.core.settings.client import OffsetReset
from mm2.kafka.errors import Unreachable
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.lab.batches import COMMIT, LOG_APPEND_TIME, Batch, Record, marker, sealed
from tests.unit.flows.replicators import (
    WALL,
    RecordingListener,
    arrive,
    data,
    fetched,
    is_failed,
    message,
    partition,
    replicator_of,
    send,
)


def test_from_fetch_to_acknowledgement() -> None:
    replicator, listener = partition()
    blobs = [data(0, 5), data(5, 5)]
    held = sum(len(blob) + BATCH_OVERHEAD for blob in blobs)
    assert arrive(replicator, *blobs) == replicator.held_bytes == held
    assert replicator.fetch_offset == 10
    (first,) = send(replicator)  # a new producer's first batch is sent alone
    replicator.acknowledged(first, 70, 1.0, WALL)
    assert (replicator.position, replicator.offset_to_commit, listener.acknowledged_batches) == (5, 4, [(0, 70)])
    (second,) = send(replicator)
    replicator.acknowledged(second, 75, 2.0, WALL)
    assert (replicator.position, replicator.held_bytes, listener.released) == (10, 0, held)
    assert replicator.is_idle
    progress = replicator.progress(2.0, WALL)
    assert (progress.counters.records, progress.counters.bytes) == (10, len(b"".join(blobs)))
    assert (progress.counters.latency_count, progress.counters.age_count) == (2, 2)
    assert progress.counters.latency_sum == pytest.approx(10)


def test_nothing_is_sent_before_a_chosen_start_is_stored() -> None:
    """Otherwise a partition without a stored offset could have copies of ours, after kill -9."""
    replicator, listener = partition(None)
    replicator.reset_offset(OffsetReset.EARLIEST, 3, 9, 0.0)
    arrive(replicator, data(3, 2), end=9)
    assert (listener.starts, replicator.has_unsent, replicator.can_send(0.0)) == ([2], True, False)
    before = listener.sends
    replicator.committed(2)
    assert listener.sends == before + 1, "the producer learns that the partition can send"
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 70, 0.0, WALL)
    assert replicator.position == 5


def test_a_response_contains_everything_or_a_part() -> None:
    replicator, _ = partition(None)
    assert not replicator.has_fetched_all, "nothing is known yet"
    replicator.reset_offset(OffsetReset.EARLIEST, 0, 9, 0.0)
    arrive(replicator, data(0, 5), end=9)
    assert not replicator.has_fetched_all
    arrive(replicator, data(5, 4), end=9)
    assert replicator.has_fetched_all


def test_a_response_for_another_offset_changes_nothing() -> None:
    replicator, _ = partition()
    assert replicator.fetched(7, fetched(data(7)), 100, 0.0, WALL) == 0
    assert (replicator.fetch_offset, replicator.is_idle) == (0, True)


def test_batches_without_data_move_the_position_but_not_past_waiting_ones() -> None:
    replicator, _ = partition()
    arrive(replicator, marker(0, 1, COMMIT), end=1)
    assert (replicator.position, replicator.fetch_offset, replicator.offset_to_commit) == (1, 1, None)
    assert replicator.progress(0.0, WALL).lag_seconds == 0
    arrive(replicator, data(1), marker(2, 1, COMMIT))
    arrive(replicator, marker(3, 1, COMMIT))
    assert replicator.position == 1
    (entry,) = send(replicator)
    arrive(replicator, marker(4, 1, COMMIT))
    replicator.acknowledged(entry, 0, 0.0, WALL)
    assert (replicator.position, replicator.offset_to_commit) == (5, 1)


def test_fetching_waits_while_enough_is_held() -> None:
    blob = data(0, 1, 500)
    replicator, _ = partition(max_held_bytes=2 * (len(blob) + BATCH_OVERHEAD))
    arrive(replicator, blob)
    assert not replicator.is_full
    arrive(replicator, data(1, 1, 500))
    assert replicator.is_full
    assert replicator.fetch_offset is None
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    assert replicator.fetch_offset == 2


def test_an_offset_is_chosen() -> None:
    replicator, _ = partition(None)
    assert replicator.needs_start_offset
    assert replicator.progress(0.0, WALL).state is TaskState.WAITING
    replicator.reset_offset(OffsetReset.EARLIEST, 40, 90, 0.0)
    assert (replicator.fetch_offset, replicator.position) == (40, 40)
    assert replicator.losses == []


def test_a_partition_that_is_revoked_before_it_has_an_offset_reports_no_loss() -> None:
    replicator, _ = partition(None)
    replicator.drain(0.0)
    replicator.reset_offset(OffsetReset.EARLIEST, 40, 90, 0.0)
    assert (replicator.position, replicator.losses) == (-1, [])


def test_a_loss_is_reported_and_does_not_affect_waiting_batches() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0, 5))
    replicator.reset_offset(OffsetReset.EARLIEST, 50, 90, 0.0)
    (loss,) = replicator.losses
    assert (loss.topic, loss.partition, loss.first, loss.until) == ("orders", 3, 5, 50)
    assert loss.reason.startswith("offset 5 was deleted on the source")
    assert (replicator.fetch_offset, replicator.position) == (50, 0)
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    assert replicator.position == 50


def test_no_offset_may_be_chosen() -> None:
    replicator, listener = partition(None)
    replicator.reset_offset(OffsetReset.NONE, 0, 9, 0.0)
    assert message(replicator) == "cannot fetch orders-3: no offset is stored and auto.offset.reset is none"
    assert is_failed(replicator)
    assert listener.pauses == [TIMEOUTS.failed_retry_s]
    assert not replicator.needs_start_offset
    replicator.wake(TIMEOUTS.failed_retry_s)
    assert replicator.needs_start_offset


def test_a_damaged_batch_is_fetched_again_before_it_counts_as_broken() -> None:
    replicator, _ = partition()
    damaged = bytearray(data(0))
    damaged[-1] ^= 1
    now = 0.0
    for attempt in range(CORRUPT_ATTEMPTS):
        assert not is_failed(replicator), attempt
        arrive(replicator, bytes(damaged), now=now)
        assert replicator.fetch_offset is None
        now += 2
        replicator.wake(now)
    assert is_failed(replicator)
    assert "CRC mismatch" in (message(replicator) or "")
    replicator.wake(now + TIMEOUTS.failed_retry_s)
    arrive(replicator, data(0), now=now)
    (entry,) = send(replicator, now)
    replicator.acknowledged(entry, 0, now, WALL)
    assert not is_failed(replicator)
    assert message(replicator) is None


def test_responses_without_progress_are_retried_with_backoff_and_fail() -> None:
    replicator, listener = partition()
    now = 0.0
    for _ in range(CORRUPT_ATTEMPTS):
        assert not is_failed(replicator)
        arrive(replicator, data(0)[:-1], now=now)
        assert replicator.fetch_offset is None, "fetching pauses"
        now += listener.pauses[-1]
        replicator.wake(now)
    assert is_failed(replicator)
    assert "without a complete batch from offset 0 on" in (message(replicator) or "")
    assert listener.pauses[-1] == TIMEOUTS.failed_retry_s


def test_a_batch_that_cannot_be_unpacked_fails_after_what_is_before_it() -> None:
    replicator, _ = partition()
    broken = bytearray(Batch(records=[Record(1, 0, b"k", b"v")], attributes=LOG_APPEND_TIME).encode())
    broken[HEADER_BYTES] = 0x55
    fields = [1, len(broken) - 12, -1, 2, 0, LOG_APPEND_TIME, 0, 0, 0, -1, -1, -1, 1]
    arrive(replicator, data(0), sealed(broken, fields))
    (first,) = send(replicator)
    replicator.acknowledged(first, 0, 0.0, WALL)
    assert replicator.next_batch(0.0) is None
    assert "do not contain the 1 records" in (message(replicator) or "")
    assert (is_failed(replicator), replicator.held_bytes, replicator.position) == (True, 0, 1)
    assert replicator.fetch_offset is None
    replicator.wake(TIMEOUTS.failed_retry_s)
    assert replicator.fetch_offset == 1


def test_a_batch_is_split_when_the_target_rejects_its_size() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0, 10, 100))
    (entry,) = send(replicator)
    whole = entry.batch.size
    replicator.produce_failed(entry, from_response(ErrorCode.MESSAGE_TOO_LARGE), 0.0)
    replicator.size_limit_read(None, 0.0)
    copied = 0
    while not replicator.is_idle:
        (entry,) = send(replicator)
        assert entry.batch.size <= whole // 2
        copied += entry.batch.count
        replicator.acknowledged(entry, copied, 0.0, WALL)
        replicator.set_producer_id(ProducerId(8 + copied, 0))  # keeps one in flight
    assert (copied, replicator.position, message(replicator)) == (10, 10, None)


def test_one_record_that_is_too_large_fails_and_is_retried() -> None:
    replicator, listener = partition()
    arrive(replicator, data(0, 1, 1_000), data(1))
    (entry,) = send(replicator)
    replicator.produce_failed(entry, from_response(ErrorCode.MESSAGE_TOO_LARGE, "too large", ()), 0.0)
    assert is_failed(replicator)
    assert (message(replicator) or "").startswith(
        "cannot copy orders-3 offset 0 to A.orders-3: too large (MESSAGE_TOO_LARGE)"
    )
    assert (replicator.is_idle, replicator.held_bytes, replicator.fetch_offset) == (True, 0, None), (
        "nothing of it takes room"
    )
    assert listener.pauses == [TIMEOUTS.failed_retry_s]
    replicator.wake(TIMEOUTS.failed_retry_s)
    assert replicator.fetch_offset == 0
    arrive(replicator, data(0, 1, 1_000))
    (entry,) = send(replicator, TIMEOUTS.failed_retry_s)
    assert entry.batch.sequence == 0
    replicator.acknowledged(entry, 0, TIMEOUTS.failed_retry_s, WALL)
    assert not is_failed(replicator)


def test_a_batch_without_wanted_records_does_not_block_the_position() -> None:
    replicator, _ = partition(5)
    hollow = Batch(records=[Record(2, 0, b"k", b"v")], next_offset=9).encode()
    arrive(replicator, hollow, data(9), data(10))
    entries = send(replicator)
    assert replicator.position == 9
    replicator.acknowledged(entries[0], 0, 0.0, WALL)
    replicator.acknowledged(send(replicator)[0], 1, 0.0, WALL)
    assert replicator.position == 11


def test_a_remote_topic_that_stays_missing_fails_after_a_while() -> None:
    replicator, _ = partition()
    missing = from_response(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    replicator.leader_unavailable(missing, 0.0)
    replicator.leader_unavailable(missing, TIMEOUTS.missing_topic_s - 1)
    assert not is_failed(replicator)
    assert message(replicator) == "cannot copy orders-3 to A.orders-3: UNKNOWN_TOPIC_OR_PARTITION"
    replicator.leader_unavailable(missing, TIMEOUTS.missing_topic_s + 1)
    assert is_failed(replicator)


def test_a_missing_leader_is_not_reported_while_batches_are_in_flight() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0))
    send(replicator)
    replicator.leader_unavailable(from_exception(Unreachable("no leader")), 0.0)
    assert message(replicator) is None


def test_after_a_missing_leader_one_batch_is_sent_alone() -> None:
    """It goes over the connection for retries, and those after its acknowledgement over the usual one."""
    replicator, _ = partition()
    arrive(replicator, data(0))
    replicator.acknowledged(send(replicator)[0], 0, 0.0, WALL)
    replicator.leader_unavailable(from_exception(Unreachable("no leader")), 0.0)
    arrive(replicator, data(1), data(2), data(3))
    (alone,) = send(replicator, now=1.0)
    replicator.acknowledged(alone, 1, 1.0, WALL)
    assert not replicator.is_retrying
    assert len(send(replicator, now=1.0)) == 2


def test_draining_keeps_only_what_was_sent() -> None:
    replicator, listener = partition()
    arrive(replicator, data(0), data(1))
    (entry,) = send(replicator)
    replicator.drain(0.0)
    assert (replicator.is_draining, replicator.is_idle, replicator.fetch_offset) == (True, False, None)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    assert (replicator.is_idle, replicator.held_bytes, replicator.position) == (True, 0, 1)
    assert listener.released == len(data(0) + data(1)) + 2 * BATCH_OVERHEAD


def test_abandoning_releases_all_bytes_once() -> None:
    replicator, listener = partition()
    arrive(replicator, data(0), data(1))
    send(replicator)
    replicator.abandon()
    replicator.abandon()
    assert listener.released == len(data(0) + data(1)) + 2 * BATCH_OVERHEAD


def test_the_time_without_an_acknowledgement() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0), data(1))
    assert replicator.unanswered_for(9.0) == 0
    (entry,) = send(replicator, 10.0)
    assert replicator.unanswered_for(13.0) == 3
    replicator.acknowledged(entry, 0, 14.0, WALL)
    assert replicator.unanswered_for(20.0) == 0


def test_the_lag_in_seconds_is_the_age_of_the_first_waiting_batch() -> None:
    replicator, _ = partition()
    assert replicator.progress(50.0, WALL).lag_seconds == 0
    arrive(replicator, end=100, now=0.0)
    assert replicator.progress(50.0, WALL).lag_seconds == 50, "nothing is known but for how long it lags"
    arrive(replicator, data(0))
    assert replicator.progress(50.0, WALL).lag_seconds == pytest.approx(5)
    send(replicator)
    assert replicator.progress(50.0, WALL + 1).lag_seconds == pytest.approx(6)


def test_batches_for_a_target_far_away_are_merged() -> None:
    replicator, _ = partition(rules=BatchRules())
    for is_far, count in ((False, 200), (True, 400)):
        arrive(replicator, data(0, 200, 100), data(200, 200, 100))
        replicator.target_is_far = is_far
        merged = replicator.next_batch(0.0)
        assert merged is not None
        assert merged.batch.count == count
        replicator, _ = partition(rules=BatchRules())


def test_with_large_responses_one_may_be_held_while_the_next_one_is_under_way() -> None:
    blob = data(0, 10, 100)
    size = len(blob) + BATCH_OVERHEAD
    replicator, _ = partition(max_held_bytes=size, most_held_bytes=3 * size)
    replicator.expect_responses_of(size)
    arrive(replicator, blob)
    assert not replicator.is_full
    arrive(replicator, data(10, 10, 100))
    assert replicator.is_full
    for entry in send(replicator):
        replicator.acknowledged(entry, 0, 0.0, WALL)
    assert not replicator.is_full, "half of it was released"
    replicator.expect_responses_of(10 * size)
    arrive(replicator, data(20, 10, 100), data(30, 10, 100))
    assert replicator.is_full, "never more than the most"


def test_after_a_long_idle_time_one_batch_is_sent_alone() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0))
    replicator.acknowledged(send(replicator)[0], 0, 0.0, WALL)
    arrive(replicator, *(data(offset) for offset in range(1, 5)))
    assert len(send(replicator, 100.0)) == 1


def test_every_move_reports_the_checked_offsets() -> None:
    replicator, listener = partition()
    arrive(replicator, marker(0, 1, COMMIT), end=1)
    arrive(replicator, data(3, 2), marker(5, 1, COMMIT))  # compaction removed 1 and 2
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    assert listener.checked == [(0, 1), (1, 6)]


def test_offsets_deleted_by_retention_are_checked_and_offsets_skipped_by_a_reset_are_not() -> None:
    replicator, listener = partition(5)
    replicator.reset_offset(OffsetReset.LATEST, 40, 90, 0.0)
    assert (replicator.position, listener.checked) == (90, [(5, 40)])
    replicator, listener = partition(5)
    arrive(replicator, data(5, 5))
    (entry,) = send(replicator)
    replicator.reset_offset(OffsetReset.LATEST, 40, 90, 0.0)
    arrive(replicator, data(90))
    replicator.acknowledged(entry, 0, 0.0, WALL)
    assert (replicator.position, listener.checked) == (90, [(5, 40)])
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 5, 0.0, WALL)
    assert listener.checked == [(5, 40), (90, 91)]


@pytest.mark.parametrize(("earliest", "latest", "stored"), [(0, 0, -1), (0, 90, 89), (40, 90, 89)])
def test_a_chosen_start_is_stored_like_a_copied_offset(earliest: int, latest: int, stored: int) -> None:
    replicator, listener = partition(None)
    assert (replicator.offset_to_commit, listener.starts) == (None, [])
    replicator.reset_offset(OffsetReset.LATEST, earliest, latest, 0.0)
    assert (replicator.offset_to_commit, listener.starts) == (stored, [stored])
    assert (replicator.position, replicator.progress(0.0, WALL).stored) == (latest, None)
    replicator.committed(stored)
    assert (replicator.progress(0.0, WALL).stored, replicator.lease_to_resume().start_offset) == (latest, latest)
    arrive(replicator, data(latest, 2))
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    assert replicator.offset_to_commit == latest + 1


def test_mm2_start_decides_only_for_a_partition_without_offset() -> None:
    replicator, listener = partition(None)
    replicator.reset_offset(OffsetReset.NONE, 40, 90, 0.0, first=60)
    assert (replicator.position, listener.starts) == (60, [59])
    replicator.reset_offset(OffsetReset.LATEST, 70, 90, 0.0, first=75)
    assert (replicator.position, listener.starts) == (90, [59])


def test_an_offset_that_is_out_of_range_is_not_a_first_start() -> None:
    replicator, listener = partition(5)
    replicator.reset_offset(OffsetReset.LATEST, 40, 90, 0.0)
    assert (replicator.offset_to_commit, listener.starts) == (None, [])


def test_a_partition_of_a_new_topic_has_nothing_stored() -> None:
    listener = RecordingListener()
    lease = PartitionLease(topic="orders", partition=3, remote_topic="A.orders", start_offset=0, topic_recreated=True)
    replicator = replicator_of(lease, listener)
    assert (replicator.position, replicator.fetch_offset) == (0, 0)
    assert (replicator.progress(0.0, WALL).stored, replicator.offset_to_commit) == (None, RECREATED_TOPIC)
