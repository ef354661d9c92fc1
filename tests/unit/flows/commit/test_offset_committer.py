"""Offsets of records that a query drops, at least once."""

from __future__ import annotations

import asyncio

from flows.commit.loss_writer import LossWriter
from flows.commit.offset_committer import OffsetCommitter
from flows.partition.frames_in_query import FrameInQuery, FrameResult
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import OffsetRange
from mm2.core.lanes.lease import OffsetsLease, PartitionLease
from mm2.core.offsets.connect_offsets import decode_offset
from mm2.core.settings.client import ClientSettings
from tests.unit.flows.replicators import RecordingListener, arrive, data, replicator_of

CLIENT = ClientSettings(bootstrap_servers=("b:9092",))


class Query:
    """A query whose results the test reports itself."""

    writes_itself = False

    def submit(self, partition: PartitionReplicator, frame: FrameInQuery) -> None: ...

    async def remove(self, partition: PartitionReplicator) -> None: ...


class Written:
    """Collects the offsets that are sent, which are written at once."""

    def __init__(self) -> None:
        self.offsets: list[int | None] = []

    def send(self, topic: str, partition: int, key: bytes, value: bytes) -> asyncio.Future[int]:
        self.offsets.append(decode_offset(value))
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        done.set_result(0)
        return done


async def _drop_and_flush() -> None:
    written = Written()
    commits = OffsetCommitter(
        written,  # type: ignore[arg-type]
        OffsetsLease(client=CLIENT, topic="offsets", partitions=5, source_alias="A", flush_interval_ms=1_000),
        source="A",
        losses=LossWriter(None, None),
        syncs=None,
        exact=None,
    )
    lease = PartitionLease(topic="orders", partition=3, remote_topic="A.orders", start_offset=40)
    partition = replicator_of(lease, RecordingListener(), transform=Query())
    commits.add(partition, lease)
    for number, offset in enumerate(range(40, 60, 5)):
        arrive(partition, data(offset, 5), end=1_000)
        partition.transformed(number, FrameResult(), 0.0)
        commits.passed_over(partition, OffsetRange(offset, offset + 5))
    commits.commit_passed_over()
    assert (written.offsets, commits.is_committed(partition)) == ([], False)
    await commits.flush()
    await asyncio.sleep(0)
    assert (written.offsets, commits.is_committed(partition)) == ([59], True)
    await commits.flush()
    assert written.offsets == [59]


def test_dropped_records_are_stored_with_the_next_flush() -> None:
    asyncio.run(_drop_and_flush())
