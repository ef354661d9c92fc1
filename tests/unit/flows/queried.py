"""Partitions whose records pass through a query, and what a test lets the query return."""

from __future__ import annotations

from typing import Any

from flows.batch.codecs import compress
from flows.batch.header import HEADER_BYTES, BatchHeader
from flows.batch.target_batch import ProducerId, Runs, WrittenBatch
from flows.partition.frames_in_query import FrameInQuery, FrameResult
from flows.partition.rejection import Rejection, of_query
from flows.partition.replicator import PartitionReplicator
from mm2.core.lanes.lease import PartitionLease
from tests.lab.batches import Batch, Record
from tests.unit.flows.replicators import RecordingListener, partition, replicator_of

DROPPED = FrameResult()


class Query:
    """Collects frames; the test decides what comes out of the query, and when."""

    writes_itself = False

    def __init__(self) -> None:
        self.frames: list[FrameInQuery] = []

    async def remove(self, partition: Any) -> None:
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
