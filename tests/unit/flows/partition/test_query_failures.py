"""Records for which a query fails, and batches that it cannot decode."""

from __future__ import annotations

import pytest

from flows.partition.frames_in_query import FrameResult
from flows.partition.timeouts import TIMEOUTS
from mm2.core.lanes.losses import LossKind
from mm2.core.offsets.leader_epochs import EpochEnd
from tests.unit.flows.queried import DROPPED, failure, queried, with_dead_letters, written
from tests.unit.flows.replicators import WALL, arrive, data, is_failed, message, send


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
    replicator.wake(TIMEOUTS.failed_retry_s)
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
    replicator.wake(TIMEOUTS.failed_retry_s)
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
    replicator.dead_letter_delayed("slow", 0.0)
    replicator.dead_letter_written(letter, 0.0)
    assert (replicator.fetch_offset, replicator.last_fetched_epoch) == (6, 2)
    assert not replicator.diverged(6, EpochEnd(2, 100), 0.0)
    assert listener.truncations == []


def test_the_leader_epoch_of_a_skipped_record_is_kept() -> None:
    replicator, _, _ = queried()
    arrive(replicator, data(0, 5, epoch=1), data(5, 5, epoch=2))
    replicator.transformed(0, FrameResult(failed=failure(replicator, 5)), 0.0)
    assert is_failed(replicator)
    replicator.request_skip(5, 0.0)
    assert (replicator.fetch_offset, replicator.last_fetched_epoch) == (6, 2)


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
