"""Partitions whose records pass through a query."""

from __future__ import annotations

import pytest

from flows.partition.frames_in_query import FrameResult
from flows.partition.state import PARTS_HELD_BYTES
from mm2.core.offsets.leader_epochs import EpochEnd
from tests.lab.batches import Batch, Record
from tests.unit.flows.queried import DROPPED, queried, written
from tests.unit.flows.replicators import WALL, arrive, data, send


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
    replicator.release_memory(0.0)
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
    replicator.drain(0.0)
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
    assert (progress.counters.rows_in, progress.counters.rows_dropped) == (3, 2)


def test_frames_end_at_their_size() -> None:
    replicator, _, query = queried(frame_bytes=2 * len(data(0, 5)))
    held = arrive(replicator, data(0, 5), data(5, 5), data(10, 5))
    assert [(one.start, one.next_offset, one.held_bytes) for one in query.frames] == [(0, 10, 0), (10, 15, held)]


def test_fetching_continues_once_enough_is_dropped() -> None:
    replicator, _, _ = queried(max_held_bytes=500)
    arrive(replicator, data(0, 5))
    assert (replicator.is_full, replicator.fetch_offset) == (True, None)
    replicator.transformed(0, DROPPED, 0.0)
    assert (replicator.is_full, replicator.fetch_offset) == (False, 5)


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
    assert replicator.diverged(10, EpochEnd(1, 3), 0.0)
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
    replicator.await_roll_back(0.0)
    replicator.roll_back(0.0)
    assert (replicator.position, replicator.fetch_offset, replicator.offsets_to_commit) == (5, 5, (4,))


LARGE = 20_000
"""Bytes of a batch that is not merged with others."""


def test_parts_of_a_frame_are_sent_before_the_rest_has_passed_through() -> None:
    """(E)"""
    replicator, listener, _ = queried()
    held = arrive(replicator, data(0, 9))
    replicator.transformed(0, FrameResult(written(((1, 2),), LARGE), is_part=True), 0.0)
    replicator.transformed(0, FrameResult(written(((4, 2),), LARGE), is_part=True), 0.0)
    assert listener.released < 0, "they are held besides the frame"
    for position in (3, 6):
        (entry,) = send(replicator)
        replicator.acknowledged(entry, 0, 0.0, WALL)
        assert replicator.position == position
    assert listener.released == 0
    replicator.transformed(0, DROPPED, 0.0)
    assert (replicator.position, replicator.held_bytes, listener.released) == (9, 0, held)
    assert (replicator._metrics.rows_in, replicator._metrics.rows_dropped) == (9, 5)


def test_what_follows_the_parts_of_a_frame_that_fails_is_fetched_again() -> None:
    """(E)"""
    replicator, _, query = queried()
    arrive(replicator, data(0, 9))
    replicator.transformed(0, FrameResult(written(((0, 4),), LARGE), is_part=True), 0.0)
    replicator.transformed(0, FrameResult(written(((4, 1),), LARGE), again_from=6), 0.0)
    for position in (4, 6):
        (entry,) = send(replicator)
        replicator.acknowledged(entry, 0, 0.0, WALL)
        assert (replicator.position, replicator.fetch_offset) == (position, 6)
    arrive(replicator, data(6, 3))
    assert query.frames[1].start == 6


def test_no_more_parts_are_taken_while_many_bytes_are_held() -> None:
    replicator, _, _ = queried()
    arrive(replicator, data(0, 9))
    assert replicator.takes_more()
    replicator.transformed(0, FrameResult(written(((0, 4),), size=PARTS_HELD_BYTES), is_part=True), 0.0)
    assert not replicator.takes_more()
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    assert replicator.takes_more()


def test_parts_of_a_dropped_frame_are_ignored() -> None:
    replicator, _, _ = queried()
    arrive(replicator, data(0, 9))
    replicator.release_memory(0.0)
    replicator.transformed(0, FrameResult(written(((0, 4),), LARGE), is_part=True), 0.0)
    assert (replicator.held_bytes, replicator.has_unsent) == (0, False)
