"""Records that cannot be copied: invariant (M) of `PartitionReplicator`, (B) of `PartitionState`.

tests/property/flows runs it against a model of a broker that refuses records.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from flows.batch.header import HEADER_BYTES
from flows.batch.target_batch import ProducerId
from flows.partition.in_flight import InFlightBatch
from flows.partition.rejection import Rejection
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import OffsetRange
from flows.partition.timeouts import CORRUPT_ATTEMPTS, TIMEOUTS
from flows.target.produce_errors import ErrorAction, ProduceError, from_response
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import LossKind, LossPolicy, OnDataLoss
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow
from mm2.core.offsets.leader_epochs import EpochEnd
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.lab.batches import LOG_APPEND_TIME, Batch, Record, sealed
from tests.unit.flows.replicators import WALL, RecordingListener, arrive, data, is_failed, message, replicator_of, send


def partition(
    letters: str | None = None, skip: int | None = None, policy: LossPolicy | None = None
) -> tuple[PartitionReplicator, RecordingListener]:
    listener = RecordingListener()
    lease = PartitionLease(topic="orders", partition=3, remote_topic="A.orders", start_offset=0, skip_offset=skip)
    replicator = replicator_of(lease, listener, dead_letters=letters, policy=policy)
    replicator.set_producer_id(ProducerId(7, 0))
    return replicator, listener


def one(replicator: PartitionReplicator) -> InFlightBatch:
    (entry,) = send(replicator)
    return entry


def refuse(replicator: PartitionReplicator, *indexes: int, now: float = 0.0) -> InFlightBatch:
    """Send one batch, which the target rejects because of the records at ``indexes``."""
    entry = one(replicator)
    errors = [(index, "no key") for index in indexes]
    replicator.produce_failed(entry, from_response(ErrorCode.INVALID_RECORD, "bad records", errors), now)
    return entry


def accept(replicator: PartitionReplicator, base_offset: int = 0) -> InFlightBatch:
    entry = one(replicator)
    replicator.acknowledged(entry, base_offset, 0.0, WALL)
    return entry


def stopped(replicator: PartitionReplicator) -> tuple[int | None, int | None]:
    progress = replicator.progress(0.0, WALL)
    return progress.stopped_at, progress.stopped_until


def losses(replicator: PartitionReplicator) -> list[tuple[int, int, str]]:
    return [(loss.first, loss.until, loss.kind) for loss in replicator.losses]


@pytest.mark.parametrize(
    ("code", "words", "fix"),
    [
        (ErrorCode.MESSAGE_TOO_LARGE, "too large", "raise max.message.bytes of A.orders on the target"),
        (ErrorCode.RECORD_LIST_TOO_LARGE, "too large", "raise segment.bytes of A.orders on the target"),
        (
            ErrorCode.INVALID_RECORD,
            "Compacted topic cannot accept message without key",
            "remove compact from cleanup.policy of A.orders on the target",
        ),
        (ErrorCode.INVALID_RECORD, "another reason", ""),
        (
            ErrorCode.INVALID_TIMESTAMP,
            "too old",
            "raise message.timestamp.before.max.ms or message.timestamp.after.max.ms of A.orders on the target",
        ),
    ],
)
def test_error_of_a_stopped_partition_names_the_keys(code: ErrorCode, words: str, fix: str) -> None:
    listener = RecordingListener()
    lease = PartitionLease(topic="orders", partition=3, remote_topic="A.orders", start_offset=0)
    replicator = replicator_of(lease, listener, policy=LossPolicy(flow=Flow("A", "B")))
    replicator.set_producer_id(ProducerId(7, 0))
    arrive(replicator, data(0))
    replicator.produce_failed(one(replicator), from_response(code, words), 0.0)
    error = message(replicator) or ""
    assert error.startswith(
        f"cannot copy orders-3 offset 0 to A.orders-3: {words} ({code.name}){'; ' * bool(fix)}{fix}; A->B."
    )
    assert error.endswith("; A->B.errors.tolerance = all leaves such records out")
    synced = [name for name in ("max.message.bytes", "segment.bytes", "cleanup.policy") if name in fix]
    assert f"; A->B.config.properties.exclude must contain {''.join(synced)}, or it is reset" in error or not synced


def test_error_of_a_batch_that_is_too_large_names_the_key_of_the_consumer() -> None:
    why = "batch at offset 0 is too large to rebuild: 20 MiB; raise max.partition.fetch.bytes of the flow's consumer"
    rejection = Rejection(first=0, until=1, message=why)
    assert rejection.keys(Flow("A", "B")).startswith("; A.consumer.max.partition.fetch.bytes sets it; ")


def test_error_of_a_program_without_flows_names_no_keys() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0))
    replicator.produce_failed(one(replicator), from_response(ErrorCode.INVALID_RECORD), 0.0)
    assert message(replicator) == "cannot copy orders-3 offset 0 to A.orders-3: INVALID_RECORD"


def at_record_two(letters: str | None = None) -> tuple[PartitionReplicator, RecordingListener]:
    """Return a partition with offsets 0 to 4, of which the target rejects 2: 0 and 1 are copied."""
    replicator, listener = partition(letters)
    arrive(replicator, data(0, 5))
    refuse(replicator, 2)
    assert accept(replicator).batch.count == 2
    replicator.set_producer_id(ProducerId(8, 0))  # keeps one in flight
    assert refuse(replicator, 0).batch.runs == ((2, 1),)
    return replicator, listener


def test_everything_before_the_record_is_copied_and_the_partition_stops_there() -> None:
    replicator, listener = at_record_two()
    assert message(replicator) == "cannot copy orders-3 offset 2 to A.orders-3: no key (INVALID_RECORD)"
    assert (is_failed(replicator), stopped(replicator), replicator.position) == (True, (2, 3), 2)
    assert (replicator.offset_to_commit, replicator.held_bytes, listener.pauses) == (1, 0, [TIMEOUTS.failed_retry_s])
    assert listener.letters == []


def test_a_skip_continues_at_once_and_is_a_loss() -> None:
    replicator, listener = at_record_two()
    replicator.request_skip(1, 0.0)
    assert stopped(replicator) == (2, 3), "it is not stopped there"
    replicator.request_skip(2, 0.0)
    assert (stopped(replicator), replicator.position, replicator.fetch_offset) == ((None, None), 3, 3)
    assert (replicator.offset_to_commit, message(replicator)) == (2, None)
    assert losses(replicator) == [(2, 3, LossKind.SKIPPED)]
    assert listener.checked[-1] == OffsetRange(2, 3), "the offset has no record on the target"
    arrive(replicator, data(0, 5))
    assert accept(replicator).batch.runs == ((3, 2),)
    assert (replicator.position, replicator.held_bytes, is_failed(replicator)) == (5, 0, False)


def test_a_skip_that_is_known_from_the_lease_applies_when_the_record_is_found() -> None:
    replicator, _ = partition(skip=2)
    replicator.request_skip(2, 0.0)
    arrive(replicator, data(0, 5))
    refuse(replicator, 2)
    accept(replicator)
    replicator.set_producer_id(ProducerId(8, 0))
    refuse(replicator, 0)
    assert losses(replicator) == [(2, 3, LossKind.SKIPPED)]
    assert (replicator.position, is_failed(replicator)) == (3, False)
    assert accept(replicator).batch.runs == ((3, 2),)


def test_a_skip_during_a_retry_applies_after_the_response() -> None:
    replicator, _ = at_record_two()
    replicator.wake(TIMEOUTS.failed_retry_s)
    arrive(replicator, data(0, 5), now=TIMEOUTS.failed_retry_s)
    (entry,) = send(replicator, TIMEOUTS.failed_retry_s)
    replicator.request_skip(2, TIMEOUTS.failed_retry_s)
    assert losses(replicator) == []
    error = from_response(ErrorCode.INVALID_RECORD, None, [(0, "no key")])
    replicator.produce_failed(entry, error, TIMEOUTS.failed_retry_s)
    (single,) = send(replicator, TIMEOUTS.failed_retry_s)
    replicator.produce_failed(single, error, TIMEOUTS.failed_retry_s)
    assert losses(replicator) == [(2, 3, LossKind.SKIPPED)]


def test_a_dead_letter_is_written_before_the_position_moves() -> None:
    replicator, listener = at_record_two("letters")
    (letter,) = listener.letters
    assert (letter.first, letter.until, letter.exception) == (2, 3, "org.apache.kafka.common.InvalidRecordException")
    assert letter.record is not None
    assert (letter.record.key, letter.record.value) == (b"k", b"v" * 10)
    assert (replicator.position, replicator.can_send(0.0), replicator.fetch_offset) == (2, False, None)
    assert (is_failed(replicator), message(replicator)) == (False, letter.message)
    replicator.dead_letter_written(letter, 0.0)
    assert (replicator.position, replicator.offset_to_commit, replicator.fetch_offset) == (3, 2, 5)
    (loss,) = replicator.losses
    assert (loss.kind, loss.reason) == (LossKind.DEAD_LETTER, f"{letter.message}; written to letters instead")
    assert accept(replicator).batch.runs == ((3, 2),)
    assert replicator.progress(0.0, WALL).counters.dead_letters == 1
    assert replicator.held_bytes == 0


def test_a_partition_has_not_drained_before_the_dead_letter_is_written() -> None:
    replicator, listener = at_record_two("letters")
    replicator.drain(0.0)
    replicator.dead_letter_delayed("slow", 0.0)
    assert (replicator.is_idle, listener.drained_partitions) == (False, 0)
    replicator.dead_letter_written(listener.letters[0], 0.0)
    assert (replicator.is_idle, listener.drained_partitions) == (True, 1)


def test_a_slow_dead_letter_releases_memory() -> None:
    replicator, listener = at_record_two("letters")
    replicator.dead_letter_delayed("slow", 0.0)
    assert (replicator.held_bytes, replicator.fetch_offset, replicator.is_idle) == (0, None, False)
    assert (replicator.progress(0.0, WALL).state, message(replicator)) == (TaskState.WAITING, "slow")
    replicator.dead_letter_written(listener.letters[0], 0.0)
    assert (replicator.position, replicator.fetch_offset) == (3, 3)


def test_a_dead_letter_that_is_rejected_stops_the_partition() -> None:
    replicator, listener = at_record_two("letters")
    replicator.dead_letter_failed(listener.letters[0], "rejected", 0.0)
    assert (stopped(replicator), message(replicator), listener.pauses) == (
        (2, 3),
        "rejected",
        [TIMEOUTS.failed_retry_s],
    )
    replicator.request_skip(2, 0.0)
    assert losses(replicator) == [(2, 3, LossKind.SKIPPED)]


def test_a_draining_partition_waits_for_its_dead_letter() -> None:
    replicator, listener = partition("letters")
    arrive(replicator, data(0, 1))
    refuse(replicator, 0)
    replicator.drain(0.0)
    assert not replicator.is_idle
    replicator.dead_letter_written(listener.letters[0], 0.0)
    assert (replicator.is_idle, listener.drained_partitions, replicator.offset_to_commit) == (True, 1, 0)


def test_records_are_found_by_halves_if_the_broker_does_not_name_them() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0, 4))
    assert [refuse(replicator).batch.count for _ in range(3)] == [4, 2, 1]
    assert (stopped(replicator), replicator.position) == ((0, 1), 0)


def test_a_batch_that_was_possibly_appended_is_followed_with_another_producer_id() -> None:
    """Otherwise the target could take the next batch for the one that was left out, and drop it."""
    replicator, listener = partition("letters")
    arrive(replicator, data(0, 1), data(1, 1))
    entry = one(replicator)
    uncertain = ProduceError(action=ErrorAction.RETRY, message="lost", maybe_appended=True)
    replicator.produce_failed(entry, uncertain, 0.0)
    replicator.wake(10.0)
    (entry,) = send(replicator, 10.0)
    replicator.produce_failed(entry, from_response(ErrorCode.INVALID_TIMESTAMP), 10.0)
    replicator.dead_letter_written(listener.letters[0], 10.0)
    assert replicator.needs_producer_id


def test_later_batches_take_over_the_sequences() -> None:
    replicator, listener = partition("letters")
    arrive(replicator, data(0, 1))
    accept(replicator)
    arrive(replicator, data(1, 1), data(2, 1))
    rejected, following = send(replicator)
    assert (rejected.batch.sequence, following.batch.sequence) == (1, 2)
    replicator.produce_failed(rejected, from_response(ErrorCode.INVALID_TIMESTAMP), 0.0)
    replicator.produce_failed(following, from_response(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), 0.0)
    replicator.dead_letter_written(listener.letters[0], 0.0)
    assert one(replicator).batch.sequence == 1


def damaged(offset: int, count: int) -> bytes:
    blob = bytearray(data(offset, count))
    blob[HEADER_BYTES + 5] ^= 1
    return bytes(blob)


def fetch_damaged(replicator: PartitionReplicator, *blobs: bytes) -> None:
    now = 0.0
    for _ in range(CORRUPT_ATTEMPTS):
        arrive(replicator, *blobs, now=now)
        now += 2
        replicator.wake(now)


def test_a_damaged_batch_waits_until_everything_before_it_is_copied() -> None:
    replicator, listener = partition("letters")
    arrive(replicator, data(0, 5))
    entry = one(replicator)
    fetch_damaged(replicator, damaged(5, 5), data(10))
    assert (listener.letters, replicator.fetch_offset) == ([], None)
    replicator.acknowledged(entry, 0, 10.0, WALL)
    (letter,) = listener.letters
    assert (letter.first, letter.until, letter.batch, letter.record) == (5, 10, damaged(5, 5), None)
    assert letter.message.startswith("cannot fetch orders-3: batch at offset 5: CRC mismatch")
    replicator.dead_letter_written(letter, 10.0)
    assert (replicator.position, replicator.fetch_offset, replicator.offset_to_commit) == (10, 10, 9)
    assert losses(replicator) == [(5, 10, LossKind.DEAD_LETTER)]


def test_a_damaged_batch_stops_the_partition_until_it_is_skipped() -> None:
    replicator, _ = partition()
    fetch_damaged(replicator, damaged(0, 5), data(5))
    assert (message(replicator) or "").endswith(" (offsets 0-4)")
    assert stopped(replicator) == (0, 5)
    replicator.request_skip(0, 10.0)
    assert (replicator.fetch_offset, losses(replicator)) == (5, [(0, 5, LossKind.SKIPPED)])


@pytest.mark.parametrize("letters", [None, "letters"])
def test_a_damaged_batch_of_unknown_extent_stops_the_partition(letters: str | None) -> None:
    replicator, listener = partition(letters)
    fetch_damaged(replicator, data(0, 5)[:-1])
    assert (message(replicator) or "").endswith("(from offset 0 on; where the batch ends is unknown)")
    assert (stopped(replicator), listener.letters) == ((0, 1), [])


def test_a_batch_that_cannot_be_rebuilt_becomes_a_dead_letter() -> None:
    replicator, listener = partition("letters")
    broken = bytearray(Batch(records=[Record(0, 0, b"k", b"v")], attributes=LOG_APPEND_TIME).encode())
    broken[HEADER_BYTES] = 0x55
    blob = sealed(broken, [0, len(broken) - 12, -1, 2, 0, LOG_APPEND_TIME, 0, 0, 0, -1, -1, -1, 1])
    arrive(replicator, blob)
    assert replicator.next_batch(0.0) is None
    (letter,) = listener.letters
    assert (letter.first, letter.until, letter.batch) == (0, 1, blob)
    assert letter.message.startswith("cannot copy orders-3 offset 0 to A.orders-3: batch at offset 0: ")


def test_a_rejected_batch_whose_records_cannot_be_read_becomes_a_dead_letter() -> None:
    replicator, listener = partition("letters")
    for count in (1, 2):
        blob = bytearray(data(replicator.position, count))
        blob[HEADER_BYTES + 1 :] = b"\xff" * (len(blob) - HEADER_BYTES - 1)
        fields = [replicator.position, len(blob) - 12, -1, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count]
        arrive(replicator, sealed(blob, fields))
        entry = one(replicator)
        replicator.produce_failed(entry, from_response(ErrorCode.INVALID_RECORD), 0.0)
        assert count == 1 or replicator.next_batch(0.0) is None
        letter = listener.letters[-1]
        assert (letter.until - letter.first, letter.record) == (count, None)
        assert letter.batch is not None
        assert letter.batch[HEADER_BYTES:] == bytes(blob[HEADER_BYTES:])
        replicator.dead_letter_written(letter, 0.0)
    assert (replicator.position, replicator.held_bytes) == (3, 0)


def test_other_failures_are_not_stops() -> None:
    replicator, _ = at_record_two()
    replicator.wake(TIMEOUTS.failed_retry_s)
    arrive(replicator, data(0, 5), now=TIMEOUTS.failed_retry_s)
    (entry,) = send(replicator, TIMEOUTS.failed_retry_s)
    replicator.produce_failed(entry, from_response(ErrorCode.TOPIC_AUTHORIZATION_FAILED), TIMEOUTS.failed_retry_s)
    assert (is_failed(replicator), stopped(replicator)) == (True, (None, None))
    replicator.request_skip(2, TIMEOUTS.failed_retry_s)
    assert replicator.position == 2


def truncated_behind_a_refused_record(
    policy: LossPolicy | None = None,
) -> tuple[PartitionReplicator, RecordingListener]:
    """Offsets 0 to 9 are copied; the record at 10 is refused; the source's log was truncated at 5 meanwhile."""
    replicator, listener = partition("letters", policy=policy)
    arrive(replicator, data(0, 10, epoch=1))
    accept(replicator)
    arrive(replicator, data(10, 1, epoch=1))
    entry = one(replicator)
    assert replicator.diverged(11, EpochEnd(1, 5), 0.0)
    replicator.produce_failed(entry, from_response(ErrorCode.INVALID_RECORD, "bad record", [(0, "no key")]), 0.0)
    return replicator, listener


def test_a_truncation_waits_for_the_dead_letter() -> None:
    replicator, listener = truncated_behind_a_refused_record()
    replicator.dead_letter_written(listener.letters[0], 0.0)
    assert (replicator.position, replicator.offset_to_commit) == (5, 4)
    assert losses(replicator) == [(10, 11, LossKind.DEAD_LETTER), (5, 11, LossKind.TRUNCATED)]


def test_a_slow_dead_letter_does_not_skip_records_after_a_truncation() -> None:
    replicator, listener = truncated_behind_a_refused_record()
    replicator.dead_letter_delayed("slow", 0.0)
    replicator.dead_letter_written(listener.letters[0], 0.0)
    assert (replicator.position, replicator.fetch_offset) == (5, 5)


def test_a_truncation_that_stops_the_partition_behind_a_slow_dead_letter_is_noticed_after_the_acceptance() -> None:
    stop = LossPolicy(on_data_loss=OnDataLoss.STOP_PARTITION)
    replicator, listener = truncated_behind_a_refused_record(stop)
    replicator.dead_letter_delayed("slow", 0.0)
    replicator.dead_letter_written(listener.letters[0], 0.0)
    assert (replicator.stopped_by is not None, replicator.offset_to_commit) == (True, 10)
    replicator.committed(10)
    resumed = replicator.lease_to_resume()
    loss = replicator.losses[-1]
    accepted = replace(resumed, stopped_by=None, accepted_loss=replace(loss, accepted=True))
    replicator = replicator_of(accepted, RecordingListener(), policy=stop)
    assert replicator.last_fetched_epoch == 1, "otherwise the broker does not check it"
    assert replicator.diverged(replicator.position, EpochEnd(1, 5), 0.0)
    assert (replicator.position, replicator.fetch_offset) == (5, 5)


@pytest.mark.parametrize("is_skipped", [False, True])
def test_a_record_that_is_left_out_late_hides_no_truncation(is_skipped: bool) -> None:
    """The source's log may have been truncated while the partition fetched nothing."""
    replicator, listener = partition(None if is_skipped else "letters")
    arrive(replicator, data(0, 10, epoch=1))
    accept(replicator)
    arrive(replicator, data(10, 1, epoch=2))
    entry = one(replicator)
    arrive(replicator, data(11, 1, epoch=3))
    replicator.produce_failed(entry, from_response(ErrorCode.INVALID_RECORD, "bad record", [(0, "no key")]), 0.0)
    if is_skipped:
        assert is_failed(replicator)
        replicator.request_skip(10, 0.0)
    else:
        replicator.dead_letter_delayed("slow", 0.0)
        replicator.dead_letter_written(listener.letters[0], 0.0)
    assert (replicator.position, replicator.fetch_offset, replicator.last_fetched_epoch) == (11, 11, 2)
    assert replicator.diverged(11, EpochEnd(1, 5), 0.0)
    assert (replicator.position, replicator.fetch_offset) == (5, 5)


def test_a_dead_letter_that_is_rejected_ends_with_the_truncation() -> None:
    replicator, listener = truncated_behind_a_refused_record()
    replicator.dead_letter_failed(listener.letters[0], "no permission", 0.0)
    replicator.wake(TIMEOUTS.failed_retry_s)
    assert (replicator.position, replicator.fetch_offset) == (5, 5)


def test_a_damaged_batch_behind_a_refused_record_is_reached() -> None:
    replicator, listener = partition("letters")
    arrive(replicator, data(0, 1))
    entry = one(replicator)
    fetch_damaged(replicator, damaged(1, 2), data(3))
    replicator.produce_failed(entry, from_response(ErrorCode.INVALID_RECORD, "bad record", [(0, "no key")]), 0.0)
    replicator.dead_letter_written(listener.letters[0], 0.0)
    assert [(letter.first, letter.until) for letter in listener.letters] == [(0, 1), (1, 3)]
    replicator.dead_letter_written(listener.letters[1], 0.0)
    assert (replicator.position, replicator.fetch_offset) == (3, 3)
