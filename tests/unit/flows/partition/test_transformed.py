"""Partitions whose records pass through a query."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flows.batch.choice import BatchRules
from flows.batch.codecs import compress
from flows.batch.header import HEADER_BYTES, BatchHeader
from flows.batch.target_batch import ProducerId, Runs, WrittenBatch
from flows.partition import query_state
from flows.partition.frames_in_query import FrameInQuery, FrameResult
from flows.partition.rejection import Rejection, of_query
from flows.partition.replicator import PartitionReplicator
from flows.partition.timeouts import FAILED_RETRY_S
from flows.target.produce_errors import from_exception, from_response
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import LossKind
from mm2.core.offsets.leader_epochs import EpochEnd
from mm2.kafka.decompression import Codec
from mm2.kafka.errors import ConnectionLost
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.lab.batches import Batch, Record, read
from tests.unit.flows.replicators import (
    WALL,
    RecordingListener,
    arrive,
    data,
    is_failed,
    message,
    partition,
    replicator_of,
    send,
)

DROPPED = FrameResult()


class Query:
    """Collects frames; the test decides what comes out of the query, and when."""

    def __init__(self) -> None:
        self.frames: list[FrameInQuery] = []

    writes_itself = False

    def remove(self, partition: Any) -> None:
        """Nothing is kept of it."""

    def submit(self, partition: Any, frame: FrameInQuery) -> None:
        self.frames.append(frame)


def written(runs: Runs, size: int = 40) -> WrittenBatch:
    first, last = runs[0][0], runs[-1][0] + runs[-1][1] - 1
    count = sum(count for _, count in runs)
    header = BatchHeader(first, 49 + size, -1, 2, 0, 0, last - first, 5, 6, -1, -1, -1, count)
    return WrittenBatch(header, memoryview(bytes(HEADER_BYTES + size)), runs)


def queried(**options: Any) -> tuple[PartitionReplicator, RecordingListener, Query]:
    query = Query()
    replicator, listener = partition(transform=query, **options)
    return replicator, listener, query


def with_dead_letters(**options: Any) -> tuple[PartitionReplicator, RecordingListener, Query]:
    query, listener = Query(), RecordingListener()
    lease = PartitionLease(topic="orders", partition=3, remote_topic="A.orders", start_offset=0)
    replicator = replicator_of(lease, listener, transform=query, dead_letters="letters", **options)
    replicator.set_producer_id(ProducerId(7, 0))
    return replicator, listener, query


def failure(replicator: PartitionReplicator, offset: int) -> Rejection:
    return of_query(replicator.source, replicator.target, offset, query="q", why="divided by zero", record=None)


def kept(*offsets: int, codec: int = 0) -> WrittenBatch:
    """Return a batch as the query returns it, whose records can be decoded."""
    raw = Batch(records=[Record(at, 5, b"%d" % offset, b"v") for at, offset in enumerate(offsets)]).encode()
    records = compress(codec, None, raw[HEADER_BYTES:])
    header = written(tuple((offset, 1) for offset in offsets)).header
    header = header._replace(length=49 + len(records), attributes=codec, base_timestamp=5, max_timestamp=5)
    return WrittenBatch(
        header, memoryview(bytes(HEADER_BYTES) + bytes(records)), tuple((offset, 1) for offset in offsets)
    )


def test_records_are_sent_once_they_have_passed_through() -> None:
    replicator, listener, query = queried()
    held = arrive(replicator, data(0, 5), data(5, 5))
    arrive(replicator, data(10, 5))
    assert [(frame.number, len(frame.batches), frame.start) for frame in query.frames] == [(0, 2, 0), (1, 1, 10)]
    assert not replicator.has_unsent
    assert not replicator.is_idle
    replicator.transformed(0, FrameResult(written(((1, 3), (7, 1)))), 0.0)
    (entry,) = send(replicator)
    assert (entry.batch.runs, entry.batch.count, entry.batch.next_offset) == (((1, 3), (7, 1)), 4, 10)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    assert (replicator.position, replicator.offset_to_commit, listener.released) == (10, 9, held)


def test_a_frame_without_survivors_is_left_out() -> None:
    replicator, listener, _ = queried()
    held = arrive(replicator, data(0, 5))
    arrive(replicator, data(5, 5))
    replicator.transformed(0, DROPPED, 0.0)
    assert (replicator.position, replicator.offset_to_commit, listener.released) == (5, 4, held)
    replicator.transformed(1, FrameResult(written(((6, 1),))), 0.0)
    arrive(replicator, data(10, 5))
    replicator.transformed(2, DROPPED, 0.0)
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    assert (replicator.position, replicator.held_bytes) == (15, 0)


def test_results_of_what_was_dropped_are_ignored() -> None:
    replicator, _, query = queried()
    arrive(replicator, data(0, 5))
    replicator.release_memory()
    assert (replicator.held_bytes, replicator.fetch_offset) == (0, 0)
    arrive(replicator, data(0, 5))
    replicator.transformed(0, FrameResult(written(((0, 5),))), 0.0)
    assert not replicator.has_unsent
    replicator.transformed(1, FrameResult(written(((0, 5),))), 0.0)
    assert replicator.has_unsent
    assert [frame.number for frame in query.frames] == [0, 1]


def test_a_drain_waits_for_nothing_in_the_query() -> None:
    replicator, _, _ = queried()
    arrive(replicator, data(0, 5))
    replicator.drain()
    assert replicator.is_idle


def test_what_an_ended_source_task_gets_from_the_query_is_ignored() -> None:
    replicator, listener, _ = queried()
    held = arrive(replicator, data(0, 5))
    replicator.abandon()
    replicator.transformed(0, DROPPED, 0.0)
    assert (listener.released, replicator.position) == (held, 0)


def test_a_dropped_frame_follows_what_is_fetched_or_in_flight() -> None:
    replicator, listener, _ = queried()
    arrive(replicator, data(0, 5))
    arrive(replicator, data(5, 5))
    arrive(replicator, data(10, 5))
    replicator.transformed(0, FrameResult(written(((1, 1),))), 0.0)
    replicator.transformed(1, DROPPED, 0.0)
    (entry,) = send(replicator)
    assert entry.batch.next_offset == 10
    replicator.transformed(2, DROPPED, 0.0)
    assert (entry.batch.next_offset, replicator.position, listener.checked) == (15, 0, [])
    replicator.acknowledged(entry, 0, 0.0, WALL)
    assert (replicator.position, replicator.offset_to_commit, listener.checked) == (15, 14, [(0, 15)])


def test_values_that_grow_are_counted() -> None:
    replicator, listener, _ = queried()
    held = arrive(replicator, data(0, 5))
    replicator.transformed(0, FrameResult(written(((0, 5),), 5_000)), 0.0)
    assert replicator.held_bytes > held
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    assert (replicator.held_bytes, listener.released) == (0, held)


def test_rows_are_counted() -> None:
    replicator, _, _ = queried(start=2)
    arrive(replicator, data(0, 5))
    replicator.transformed(0, FrameResult(written(((3, 1),))), 0.0)
    progress = replicator.progress(0.0, WALL)
    assert (progress.rows_in, progress.rows_dropped) == (3, 2)


def test_frames_end_at_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_state, "FRAME_BYTES", 2 * len(data(0, 5)))
    replicator, _, query = queried()
    held = arrive(replicator, data(0, 5), data(5, 5), data(10, 5))
    assert [(one.start, one.next_offset, one.held_bytes) for one in query.frames] == [(0, 10, 0), (10, 15, held)]


def test_fetching_continues_once_enough_is_dropped() -> None:
    replicator, _, _ = queried(max_held_bytes=500)
    arrive(replicator, data(0, 5))
    assert (replicator.is_full, replicator.fetch_offset) == (True, None)
    replicator.transformed(0, DROPPED, 0.0)
    assert (replicator.is_full, replicator.fetch_offset) == (False, 5)


def test_a_record_for_which_the_query_fails_stops_the_partition() -> None:
    replicator, listener, query = queried()
    held = arrive(replicator, data(0, 5), data(5, 5))
    arrive(replicator, data(10, 5))
    replicator.transformed(0, FrameResult(written(((1, 3),)), failure(replicator, 7)), 0.0)
    assert replicator.fetch_offset is None
    replicator.transformed(1, FrameResult(written(((10, 5),))), 0.0)  # after the failed one: is fetched again
    (entry,) = send(replicator)
    assert (entry.batch.runs, entry.batch.next_offset) == (((1, 3),), 7)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    assert is_failed(replicator)
    assert "query q failed: divided by zero" in str(message(replicator))
    assert replicator.progress(0.0, WALL).stopped_at == replicator.position == 7
    assert (replicator.held_bytes, replicator.fetch_offset) == (0, None)
    replicator.wake(FAILED_RETRY_S)
    arrive(replicator, data(5, 5))
    assert query.frames[-1].start == 7
    replicator.transformed(2, FrameResult(written(((7, 3),))), 0.0)
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 3, 0.0, WALL)
    assert (replicator.position, is_failed(replicator), replicator.held_bytes) == (10, False, 0)
    assert listener.released >= held


@pytest.mark.parametrize("is_first", [True, False])
def test_a_record_for_which_the_query_fails_can_be_skipped(*, is_first: bool) -> None:
    replicator, listener, _ = queried()
    if is_first:
        replicator.request_skip(2, 0.0)
    arrive(replicator, data(0, 5))
    replicator.transformed(0, FrameResult(failed=failure(replicator, 2)), 0.0)
    if not is_first:
        assert (replicator.position, is_failed(replicator)) == (2, True)
        replicator.request_skip(1, 0.0)
        assert replicator.fetch_offset is None
        replicator.request_skip(2, 0.0)
    assert (replicator.position, replicator.fetch_offset, is_failed(replicator)) == (3, 3, False)
    assert [(loss.first, loss.until, loss.kind) for loss in listener.losses] == [(2, 3, LossKind.SKIPPED)]


def test_a_retry_in_the_query_does_not_prevent_the_skip() -> None:
    replicator, _, _ = queried()
    arrive(replicator, data(0, 5))
    replicator.transformed(0, FrameResult(failed=failure(replicator, 0)), 0.0)
    replicator.wake(FAILED_RETRY_S)
    arrive(replicator, data(0, 5))
    replicator.request_skip(0, 0.0)
    replicator.transformed(1, FrameResult(failed=failure(replicator, 0)), 0.0)
    assert (replicator.position, replicator.fetch_offset, replicator.held_bytes) == (1, 1, 0)


def test_a_dead_letter_keeps_the_leader_epochs() -> None:
    """The failed record is the first of a leader epoch; without it the source's log seems to part there."""
    replicator, listener, _ = with_dead_letters()
    arrive(replicator, data(0, 5, epoch=1), data(5, 5, epoch=2))
    replicator.transformed(0, FrameResult(written(((0, 5),)), failure(replicator, 5)), 0.0)
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    (letter,) = listener.letters
    replicator.dead_letter_delayed("slow")
    replicator.dead_letter_written(letter, 0.0)
    assert (replicator.fetch_offset, replicator.last_fetched_epoch) == (6, 2)
    assert not replicator.diverged(6, EpochEnd(2, 100))
    assert listener.truncations == []


def test_the_leader_epoch_of_a_skipped_record_is_unknown() -> None:
    replicator, _, _ = queried()
    arrive(replicator, data(0, 5, epoch=1), data(5, 5, epoch=2))
    replicator.transformed(0, FrameResult(failed=failure(replicator, 5)), 0.0)
    assert is_failed(replicator)
    replicator.request_skip(5, 0.0)
    assert (replicator.fetch_offset, replicator.last_fetched_epoch) == (6, -1)


def test_a_batch_that_cannot_be_decoded_is_found_and_left_out() -> None:
    replicator, listener, query = with_dead_letters(max_held_bytes=500)
    arrive(replicator, data(0, 5), data(5, 5), data(10, 5))
    assert replicator.is_full
    replicator.transformed(0, FrameResult(unreadable="bad bytes"), 0.0)
    assert (replicator.held_bytes, replicator.fetch_offset) == (0, 0)
    arrive(replicator, data(0, 5), data(5, 5), data(10, 5))
    assert [len(frame.batches) for frame in query.frames] == [3, 1, 1, 1]
    replicator.transformed(1, FrameResult(written(((0, 5),))), 0.0)
    replicator.transformed(2, FrameResult(unreadable="bad bytes"), 0.0)
    replicator.transformed(3, FrameResult(written(((10, 5),))), 0.0)
    (entry,) = send(replicator)
    assert listener.letters == []
    replicator.acknowledged(entry, 0, 0.0, WALL)
    (letter,) = listener.letters
    assert (letter.first, letter.until, letter.batch) == (5, 10, data(5, 5))
    replicator.dead_letter_written(letter, 0.0)
    assert (replicator.position, replicator.fetch_offset) == (10, 10)
    arrive(replicator, data(10, 5), data(15, 5))
    assert [len(frame.batches) for frame in query.frames[4:]] == [1, 1]
    replicator.transformed(4, DROPPED, 0.0)
    replicator.transformed(5, DROPPED, 0.0)
    arrive(replicator, data(20, 5), data(25, 5))
    assert len(query.frames[-1].batches) == 2


def test_a_repeated_batch_waits_for_what_is_in_the_query() -> None:
    replicator, _, _ = queried()
    arrive(replicator, data(0, 5))
    arrive(replicator, data(5, 5))
    replicator.transformed(0, FrameResult(kept(1, 3)), 0.0)
    (entry,) = send(replicator)
    replicator.transformed(1, DROPPED, 0.0)
    first = entry.batch.sequence, entry.batch.count
    replicator.release_memory()
    replicator.produce_failed(entry, from_exception(ConnectionLost("lost")), 0.0)
    replicator.wake(1.0)
    arrive(replicator, data(0, 5))
    replicator.transformed(2, FrameResult(kept(1, 3)), 1.0)
    assert not replicator.can_send(1.0), "the batch ended at 10, and the rest is not fetched"
    arrive(replicator, data(5, 5))
    assert not replicator.can_send(1.0)
    replicator.transformed(3, DROPPED, 1.0)
    (again,) = send(replicator, 1.0)
    assert (again.batch.sequence, again.batch.count) == first
    assert (again.batch.runs, again.batch.next_offset) == (((1, 1), (3, 1)), 10)


def test_a_failure_inside_of_a_repeated_batch_takes_another_producer_id() -> None:
    """It cannot be completed: the query did not fail there before."""
    replicator, _, _ = queried()
    arrive(replicator, data(0, 5))
    replicator.transformed(0, FrameResult(kept(0, 1, 2)), 0.0)
    (entry,) = send(replicator)
    replicator.release_memory()
    replicator.produce_failed(entry, from_exception(ConnectionLost("lost")), 0.0)
    replicator.wake(1.0)
    arrive(replicator, data(0, 5))
    replicator.transformed(1, FrameResult(kept(0, 1), failure(replicator, 2)), 1.0)
    assert replicator.needs_producer_id
    replicator.set_producer_id(ProducerId(8, 0))
    (entry,) = send(replicator, 1.0)
    replicator.acknowledged(entry, 5, 1.0, WALL)
    assert (replicator.position, is_failed(replicator)) == (2, True)


def test_a_result_with_holes_is_written_with_a_codec_that_the_target_supports() -> None:
    replicator, _, _ = queried()
    arrive(replicator, data(0, 5))
    replicator.transformed(0, FrameResult(kept(1, 3, codec=Codec.ZSTD)), 0.0)
    (entry,) = send(replicator)
    assert entry.batch.codec == Codec.ZSTD
    replicator.produce_failed(entry, from_response(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, None, []), 0.0)
    arrive(replicator, data(0, 5))
    replicator.transformed(1, FrameResult(kept(1, 3, codec=Codec.ZSTD)), 0.0)
    (entry,) = send(replicator)
    assert (entry.batch.codec, entry.batch.runs) == (Codec.LZ4, ((1, 1), (3, 1)))
    found = read(b"".join(bytes(piece) for piece in entry.batch.wire()))
    assert [(record.offset, record.key) for record in found] == [(0, b"1"), (1, b"3")]


def test_a_result_above_the_limit_of_decompression_is_split() -> None:
    """It was written here: only what is fetched has a limit."""
    replicator, _, _ = queried(rules=replace(BatchRules(tiny_bytes=0), max_uncompressed=1))
    arrive(replicator, data(0, 5))
    replicator.transformed(0, FrameResult(kept(1, 3, codec=Codec.GZIP)), 0.0)
    (entry,) = send(replicator)
    replicator.produce_failed(entry, from_response(ErrorCode.MESSAGE_TOO_LARGE, None, []), 0.0)
    replicator.size_limit_read(None, 0.0)
    (entry,) = send(replicator)
    assert entry.batch.runs == ((1, 1),)


def test_skipped_offsets_follow_what_is_in_the_query() -> None:
    replicator, listener, _ = queried()
    arrive(replicator, data(0, 5))
    control = Batch(records=[Record(5, 5, b"", b"")], attributes=0x20).encode()
    arrive(replicator, control)
    assert (replicator.position, replicator.fetch_offset, listener.checked) == (0, 6, [])
    replicator.transformed(0, DROPPED, 0.0)
    assert (replicator.position, listener.checked) == (6, [(0, 6)])


def test_a_truncation_drops_what_is_in_the_query() -> None:
    replicator, _, _ = queried()
    arrive(replicator, data(0, 5, epoch=1), data(5, 5, epoch=2))
    assert replicator.diverged(10, EpochEnd(1, 3))
    assert (replicator.fetch_offset, replicator.held_bytes, replicator.is_idle) == (0, 0, True)
    replicator.transformed(0, FrameResult(written(((0, 5),))), 0.0)
    assert not replicator.has_unsent


def test_the_lag_is_that_of_the_oldest_record_in_the_query() -> None:
    replicator, _, _ = queried()
    arrive(replicator, data(0, 5))
    assert replicator.progress(0.0, WALL).lag_seconds == pytest.approx(5.0)


def test_dropped_records_are_part_of_no_transaction() -> None:
    replicator, _, _ = queried()
    replicator.is_transactional = True
    arrive(replicator, data(0, 5))
    replicator.transformed(0, DROPPED, 0.0)
    assert (replicator.has_uncommitted, replicator.committed_position, replicator.needs_commit) == (False, 5, True)
    arrive(replicator, data(5, 5))
    arrive(replicator, data(10, 5))
    replicator.transformed(1, FrameResult(written(((5, 5),))), 0.0)
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    replicator.transformed(2, DROPPED, 0.0)
    assert (replicator.position, replicator.committed_position, replicator.offsets_to_commit) == (15, 5, (14,))
    replicator.await_roll_back()
    replicator.roll_back()
    assert (replicator.position, replicator.fetch_offset, replicator.offsets_to_commit) == (5, 5, (4,))
