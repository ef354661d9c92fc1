"""Results of a query that are sent again: repeated, compressed otherwise, or split."""

from __future__ import annotations

from dataclasses import replace

from flows.batch.choice import BatchRules
from flows.batch.target_batch import ProducerId
from flows.partition.frames_in_query import FrameResult
from flows.target.produce_errors import from_exception, from_response
from mm2.kafka.decompression import Codec
from mm2.kafka.errors import ConnectionLost
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.lab.batches import read
from tests.unit.flows.queried import DROPPED, failure, kept, queried
from tests.unit.flows.replicators import WALL, arrive, data, is_failed, send


def test_a_repeated_batch_waits_for_what_is_in_the_query() -> None:
    replicator, _, _ = queried()
    arrive(replicator, data(0, 5))
    arrive(replicator, data(5, 5))
    replicator.transformed(0, FrameResult(kept(1, 3)), 0.0)
    (entry,) = send(replicator)
    replicator.transformed(1, DROPPED, 0.0)
    first = entry.batch.sequence, entry.batch.count
    replicator.release_memory(0.0)
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
    replicator.release_memory(0.0)
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
