"""`flows.copy.PartitionCopy` step by step. The property tests beside this play it against a broker's rules."""

from __future__ import annotations

import pytest

from flows.batch.choice import BatchRules
from flows.batch.header import HEADER_BYTES
from flows.batch.outgoing import ProducerId
from flows.copy import PartitionCopy
from flows.intake import BATCH_OVERHEAD
from flows.line import Place
from flows.outcomes import refused, unanswered
from flows.patience import CORRUPT_ATTEMPTS, FAILED_RETRY_S, MISSING_PATIENCE_S
from flows.report import progress_of
from flows.starts import CannotStart, GoOn
from mm2.core.lease import Loss, PartitionLease, TaskState
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import ConnectionLost, Unreachable
from mm2.kafka.raw_fetch import FetchedPartition
from tests.lab.batches import COMMIT, LOG_APPEND_TIME, Batch, Record, marker, sealed
from tests.unit.flows.copies import Slot, copy_of, partition

WALL = 1_700_000_000.0


def data(offset: int, count: int = 1, value_bytes: int = 10) -> bytes:
    timestamp = int((WALL - 5) * 1000)
    records = [Record(offset + number, timestamp, b"k", b"v" * value_bytes) for number in range(count)]
    return Batch(records=records).encode()


def fetched(*blobs: bytes) -> FetchedPartition:
    return FetchedPartition("orders", 3, 0, 100, 100, 0, (), -1, b"".join(blobs))


def arrive(copy: PartitionCopy, *blobs: bytes, end: int = 100, now: float = 0.0) -> int:
    asked = copy.inlet.wanted
    assert asked is not None
    return copy.arrived(asked, fetched(*blobs), end, now, WALL)


def send(copy: PartitionCopy, now: float = 0.0) -> list[Place]:
    places = []
    while copy.sendable(now):
        place = copy.take(now)
        assert place is not None
        places.append(place)
    return places


def test_from_fetch_to_acknowledgement() -> None:
    copy, slot = partition()
    blobs = [data(0, 5), data(5, 5)]
    held = sum(len(blob) + BATCH_OVERHEAD for blob in blobs)
    assert arrive(copy, *blobs) == copy.held == held
    assert copy.inlet.wanted == 10
    (first,) = send(copy)  # a new producer's first batch goes alone
    copy.acked(first, 70, 1.0, WALL)
    assert (copy.headway.position, copy.headway.last_copied, slot.acknowledged_batches) == (5, 4, [(0, 70)])
    (second,) = send(copy)
    copy.acked(second, 75, 2.0, WALL)
    assert (copy.headway.position, copy.held, slot.released) == (10, 0, held)
    assert copy.idle
    progress = progress_of(copy, 2.0, WALL)
    assert (progress.records_total, progress.bytes_total) == (10, len(b"".join(blobs)))
    assert (progress.latency_count, progress.age_count) == (2, 2)
    assert progress.latency_sum == pytest.approx(10)


def test_an_answer_brings_all_the_source_has_or_leaves_some() -> None:
    copy, _ = partition(None)
    assert not copy.has_all, "nothing is known yet"
    copy.start_at(GoOn(offset=0, earliest=0), 0.0)
    arrive(copy, data(0, 5), end=9)
    assert not copy.has_all
    arrive(copy, data(5, 4), end=9)
    assert copy.has_all


def test_an_answer_that_was_not_asked_for_changes_nothing() -> None:
    copy, _ = partition()
    assert copy.arrived(7, fetched(data(7)), 100, 0.0, WALL) == 0
    assert (copy.inlet.wanted, copy.idle) == (0, True)


def test_what_carries_no_data_moves_the_position_but_not_past_what_waits() -> None:
    copy, _ = partition()
    arrive(copy, marker(0, 1, COMMIT), end=1)
    assert (copy.headway.position, copy.inlet.wanted, copy.headway.last_copied) == (1, 1, None)
    assert progress_of(copy, 0.0, WALL).lag_seconds == 0
    arrive(copy, data(1), marker(2, 1, COMMIT))
    arrive(copy, marker(3, 1, COMMIT))
    assert copy.headway.position == 1
    (place,) = send(copy)
    arrive(copy, marker(4, 1, COMMIT))
    copy.acked(place, 0, 0.0, WALL)
    assert (copy.headway.position, copy.headway.last_copied) == (5, 1)


def test_fetching_waits_while_enough_is_held() -> None:
    blob = data(0, 1, 500)
    copy, _ = partition(max_held=2 * (len(blob) + BATCH_OVERHEAD))
    arrive(copy, blob)
    assert not copy.inlet.full
    arrive(copy, data(1, 1, 500))
    assert copy.inlet.full
    assert copy.inlet.wanted is None
    (place,) = send(copy)
    copy.acked(place, 0, 0.0, WALL)
    assert copy.inlet.wanted == 2


def test_an_offset_is_chosen() -> None:
    copy, _ = partition(None)
    assert copy.inlet.needs_start
    assert progress_of(copy, 0.0, WALL).state is TaskState.WAITING
    copy.start_at(GoOn(offset=40, earliest=40), 0.0)
    assert (copy.inlet.wanted, copy.headway.position) == (40, 40)
    assert copy.headway.losses == []


def test_a_gap_is_reported_and_does_not_touch_what_waits() -> None:
    copy, _ = partition()
    arrive(copy, data(0, 5))
    copy.start_at(GoOn(offset=50, earliest=50, lost=(5, 50), reason="retention"), 0.0)
    assert copy.headway.losses == [Loss(topic="orders", partition=3, first=5, until=50, reason="retention")]
    assert (copy.inlet.wanted, copy.headway.position) == (50, 0)
    (place,) = send(copy)
    copy.acked(place, 0, 0.0, WALL)
    assert copy.headway.position == 50


def test_no_offset_may_be_chosen() -> None:
    copy, slot = partition(None)
    copy.start_at(CannotStart(reason="no policy"), 0.0)
    assert copy.trouble.words == "fetch orders-3: no policy"
    assert copy.trouble.failed
    assert slot.pauses == [FAILED_RETRY_S]
    assert not copy.inlet.needs_start
    copy.wake(FAILED_RETRY_S)
    assert copy.inlet.needs_start


def test_a_damaged_batch_is_fetched_again_before_it_counts_as_broken() -> None:
    copy, _ = partition()
    damaged = bytearray(data(0))
    damaged[-1] ^= 1
    now = 0.0
    for attempt in range(CORRUPT_ATTEMPTS):
        assert copy.trouble.failed is False, attempt
        arrive(copy, bytes(damaged), now=now)
        assert copy.inlet.wanted is None
        now += 2
        copy.wake(now)
    assert copy.trouble.failed
    assert "its CRC does not fit" in (copy.trouble.words or "")
    copy.wake(now + FAILED_RETRY_S)
    arrive(copy, data(0), now=now)
    (place,) = send(copy, now)
    copy.acked(place, 0, now, WALL)
    assert not copy.trouble.failed
    assert copy.trouble.words is None


def test_a_batch_that_cannot_be_unpacked_fails_after_what_is_before_it() -> None:
    copy, _ = partition()
    broken = bytearray(Batch(records=[Record(1, 0, b"k", b"v")], attributes=LOG_APPEND_TIME).encode())
    broken[HEADER_BYTES] = 0x55
    fields = [1, len(broken) - 12, -1, 2, 0, LOG_APPEND_TIME, 0, 0, 0, -1, -1, -1, 1]
    arrive(copy, data(0), sealed(broken, fields))
    (first,) = send(copy)
    copy.acked(first, 0, 0.0, WALL)
    assert copy.take(0.0) is None
    assert "do not hold the 1 records" in (copy.trouble.words or "")
    assert (copy.trouble.failed, copy.held, copy.headway.position) == (True, 0, 1)
    assert copy.inlet.wanted is None
    copy.wake(FAILED_RETRY_S)
    assert copy.inlet.wanted == 1


def test_a_batch_is_split_when_the_target_refuses_its_size() -> None:
    copy, _ = partition()
    arrive(copy, data(0, 10, 100))
    (place,) = send(copy)
    whole = place.batch.size
    copy.refused(place, refused(ErrorCode.MESSAGE_TOO_LARGE, None, ()), 0.0)
    copied = 0
    while not copy.idle:
        (place,) = send(copy)
        assert place.batch.size <= whole // 2
        copied += place.batch.count
        copy.acked(place, copied, 0.0, WALL)
        copy.adopt(ProducerId(8 + copied, 0))  # keeps one in flight
    assert (copied, copy.headway.position, copy.trouble.words) == (10, 10, None)


def test_one_record_that_is_too_large_fails_and_is_tried_again() -> None:
    copy, slot = partition()
    arrive(copy, data(0, 1, 1_000), data(1))
    (place,) = send(copy)
    copy.refused(place, refused(ErrorCode.MESSAGE_TOO_LARGE, "too large", ()), 0.0)
    assert copy.trouble.failed
    assert (copy.trouble.words or "").startswith("copy orders-3, offset 0 to A.orders-3: too large (MESSAGE_TOO_LARGE)")
    assert (copy.idle, copy.held, copy.inlet.wanted) == (True, 0, None), "nothing of it takes room"
    assert slot.pauses == [FAILED_RETRY_S]
    copy.wake(FAILED_RETRY_S)
    assert copy.inlet.wanted == 0
    arrive(copy, data(0, 1, 1_000))
    (place,) = send(copy, FAILED_RETRY_S)
    assert place.batch.sequence == 0
    copy.acked(place, 0, FAILED_RETRY_S, WALL)
    assert not copy.trouble.failed


def test_a_stuck_partition_makes_room_and_looks_again() -> None:
    copy, slot = partition()
    now = 0.0
    arrive(copy, data(0), data(1))
    while copy.held:
        (place,) = send(copy, now)
        copy.refused(place, refused(ErrorCode.NOT_ENOUGH_REPLICAS, None, ()), now)
        now += slot.pauses[-1] + 0.01
        copy.wake(now)
    assert 1 < now < 4
    assert copy.outlet.setbacks.any
    assert not copy.trouble.failed
    while copy.inlet.wanted is None:
        now += 0.1
        copy.wake(now)
    assert copy.inlet.wanted == 0


def test_what_the_target_may_have_is_given_back_too_and_packed_as_before() -> None:
    copy, _ = partition(rules=BatchRules())
    arrive(copy, data(0))
    copy.acked(send(copy)[0], 0, 0.0, WALL)
    tiny = [data(offset) for offset in range(1, 7)]
    arrive(copy, *tiny[:3])  # merged
    arrive(copy, *tiny[3:])
    now = 0.0
    while copy.held:
        for place in send(copy, now):
            copy.refused(place, unanswered(ConnectionLost("gone")), now)
        now += 0.1
    assert copy.trouble.words == "copy orders-3, offsets 1 to 6 to A.orders-3: gone"
    while copy.inlet.wanted is None:
        now += 0.1
        copy.wake(now)
    arrive(copy, *tiny[:2])
    assert not copy.sendable(now + 5), "it was one batch of six"
    arrive(copy, *tiny[2:], data(7))
    (place,) = send(copy, now + 5)
    assert (place.batch.sequence, place.batch.runs) == (1, ((1, 6),))


def test_shedding_keeps_the_answers_that_come() -> None:
    copy, slot = partition()
    arrive(copy, data(0), data(1))
    (place,) = send(copy)
    copy.shed()
    assert (copy.held, copy.idle, copy.inlet.wanted) == (0, False, None)
    copy.acked(place, 0, 0.0, WALL)
    assert (copy.headway.position, copy.inlet.wanted, copy.idle) == (1, 1, True)
    assert slot.released == len(data(0) + data(1)) + 2 * BATCH_OVERHEAD


def test_what_was_shed_in_flight_and_refused_is_fetched_again() -> None:
    copy, _ = partition()
    arrive(copy, data(0), data(1))
    (place,) = send(copy)
    copy.shed()
    copy.refused(place, unanswered(ConnectionLost("gone")), 0.0)
    assert (copy.idle, copy.inlet.wanted) == (True, 0)
    arrive(copy, data(0))
    (place,) = send(copy, 1.0)
    assert place.batch.sequence == 0


def test_a_batch_shed_in_flight_that_is_too_large_is_split_when_it_is_back() -> None:
    copy, _ = partition()
    arrive(copy, data(0, 10, 100))
    (place,) = send(copy)
    copy.shed()
    copy.refused(place, refused(ErrorCode.MESSAGE_TOO_LARGE, None, ()), 0.0)
    arrive(copy, data(0, 10, 100))
    (place,) = send(copy)
    assert 0 < place.batch.count < 10


def test_a_batch_of_which_nothing_is_wanted_does_not_hold_up_the_position() -> None:
    copy, _ = partition(5)
    hollow = Batch(records=[Record(2, 0, b"k", b"v")], next_offset=9).encode()
    arrive(copy, hollow, data(9), data(10))
    places = send(copy)
    assert copy.headway.position == 9
    copy.acked(places[0], 0, 0.0, WALL)
    copy.acked(send(copy)[0], 1, 0.0, WALL)
    assert copy.headway.position == 11


def test_a_remote_topic_that_stays_missing_fails_after_a_while() -> None:
    copy, _ = partition()
    missing = refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, ())
    copy.unroutable(missing, 0.0)
    copy.unroutable(missing, MISSING_PATIENCE_S - 1)
    assert not copy.trouble.failed
    assert copy.trouble.words == "copy orders-3 to A.orders-3: UNKNOWN_TOPIC_OR_PARTITION"
    copy.unroutable(missing, MISSING_PATIENCE_S + 1)
    assert copy.trouble.failed


def test_nobody_to_send_to_is_no_news_while_something_is_in_flight() -> None:
    copy, _ = partition()
    arrive(copy, data(0))
    send(copy)
    copy.unroutable(unanswered(Unreachable("no leader")), 0.0)
    assert copy.trouble.words is None


def test_draining_keeps_only_what_was_sent() -> None:
    copy, slot = partition()
    arrive(copy, data(0), data(1))
    (place,) = send(copy)
    copy.drain()
    assert (copy.inlet.closed, copy.idle, copy.inlet.wanted) == (True, False, None)
    copy.acked(place, 0, 0.0, WALL)
    assert (copy.idle, copy.held, copy.headway.position) == (True, 0, 1)
    assert slot.released == len(data(0) + data(1)) + 2 * BATCH_OVERHEAD


def test_abandoning_gives_everything_back_once() -> None:
    copy, slot = partition()
    arrive(copy, data(0), data(1))
    send(copy)
    copy.abandon()
    copy.abandon()
    assert slot.released == len(data(0) + data(1)) + 2 * BATCH_OVERHEAD


def test_how_long_nothing_was_acknowledged() -> None:
    copy, _ = partition()
    arrive(copy, data(0), data(1))
    assert copy.outlet.quiet_for(9.0) == 0
    (place,) = send(copy, 10.0)
    assert copy.outlet.quiet_for(13.0) == 3
    copy.acked(place, 0, 14.0, WALL)
    assert copy.outlet.quiet_for(20.0) == 0


def test_the_lag_in_seconds_is_the_age_of_what_waits() -> None:
    copy, _ = partition()
    assert progress_of(copy, 50.0, WALL).lag_seconds == 0
    arrive(copy, end=100, now=0.0)
    assert progress_of(copy, 50.0, WALL).lag_seconds == 50, "nothing is known but for how long it lags"
    arrive(copy, data(0))
    assert progress_of(copy, 50.0, WALL).lag_seconds == pytest.approx(5)
    send(copy)
    assert progress_of(copy, 50.0, WALL + 1).lag_seconds == pytest.approx(6)


def test_slow_acknowledgements_mean_a_long_link() -> None:
    copy, _ = partition(rules=BatchRules())
    now, offset = 0.0, 0
    for _ in range(40):
        arrive(copy, data(offset, 200, 100), data(offset + 200, 200, 100))
        offset += 400
        for place in send(copy, now):
            now += 0.2
            copy.acked(place, 0, now, WALL)
    arrive(copy, data(offset, 200, 100), data(offset + 200, 200, 100))
    merged = copy.take(now)
    assert merged is not None
    assert merged.batch.count == 400


def test_after_a_long_silence_one_batch_goes_alone() -> None:
    copy, _ = partition()
    arrive(copy, data(0))
    copy.acked(send(copy)[0], 0, 0.0, WALL)
    arrive(copy, *(data(offset) for offset in range(1, 5)))
    assert len(send(copy, 100.0)) == 1


def test_what_was_seen_is_told_of_every_move() -> None:
    copy, slot = partition()
    arrive(copy, marker(0, 1, COMMIT), end=1)
    arrive(copy, data(3, 2), marker(5, 1, COMMIT))  # compaction took 1 and 2
    (place,) = send(copy)
    copy.acked(place, 0, 0.0, WALL)
    assert slot.seen == [(0, 1), (1, 6)]


def test_what_retention_took_was_seen_to_be_empty_and_what_a_reset_jumps_over_was_not() -> None:
    copy, slot = partition(5)
    copy.start_at(GoOn(offset=90, earliest=40, lost=(5, 90), reason="retention"), 0.0)
    assert (copy.headway.position, slot.seen) == (90, [(5, 40)])
    copy, slot = partition(5)
    arrive(copy, data(5, 5))
    (place,) = send(copy)
    copy.start_at(GoOn(offset=90, earliest=40, lost=(10, 90), reason="retention"), 0.0)
    arrive(copy, data(90))
    copy.acked(place, 0, 0.0, WALL)
    assert (copy.headway.position, slot.seen) == (90, [(5, 40)])
    (place,) = send(copy)
    copy.acked(place, 5, 0.0, WALL)
    assert slot.seen == [(5, 40), (90, 91)]


def test_a_partition_of_a_new_topic_has_nothing_stored() -> None:
    slot = Slot()
    lease = PartitionLease(topic="orders", partition=3, remote_topic="A.orders", start_offset=0, made_anew=True)
    copy = copy_of(lease, slot)
    assert (copy.headway.position, copy.headway.stored, copy.begins_anew, copy.inlet.wanted) == (0, None, True, 0)
