"""A partition's replicator without a source task, and fetch responses for it."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from flows.batch.choice import BatchRules, Reason
from flows.batch.target_batch import ProducerId, TargetBatch
from flows.partition.frame_transform import FrameTransform
from flows.partition.health import PartitionMetrics
from flows.partition.in_flight import InFlightBatch
from flows.partition.rejection import Rejection
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import OffsetRange, PartitionOptions
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import Loss, LossPolicy
from mm2.core.lanes.task_states import TaskState
from mm2.core.offsets.leader_epochs import EpochStarts
from mm2.kafka.backoff import Backoff
from mm2.kafka.protocol.fetch_request import FetchedPartition
from tests.lab.batches import HEADER, Batch, Record, sealed
from tests.lab.partition_callbacks import callbacks_to

WALL = 1_700_000_000.0


class RecordingListener:
    """Records the calls of the partition."""

    def __init__(self) -> None:
        self.released = 0
        self.pauses: list[float] = []
        self.acknowledged_batches: list[tuple[int, int]] = []
        self.checked: list[OffsetRange] = []
        self.truncations: list[int] = []
        self.letters: list[Rejection] = []
        self.drained_partitions = 0
        self.remote_end_moves = 0
        self.sizes_rejected = 0
        self.sends = 0
        self.starts: list[int | None] = []
        self.losses: list[Loss] = []

    def release(self, count: int) -> None:
        self.released += count

    def fetch_changed(self, replicator: PartitionReplicator) -> None: ...

    def send_changed(self, replicator: PartitionReplicator) -> None:
        self.sends += 1

    def wake_later(self, replicator: PartitionReplicator, delay: float) -> None:
        self.pauses.append(delay)

    def size_rejected(self, replicator: PartitionReplicator) -> None:
        self.sizes_rejected += 1

    def start_chosen(self, replicator: PartitionReplicator) -> None:
        self.starts.append(replicator.offset_to_commit)

    def acknowledged(
        self, replicator: PartitionReplicator, batch: TargetBatch, base_offset: int, checked: OffsetRange
    ) -> None:
        self.acknowledged_batches.append((batch.first_offset, base_offset))
        self.checked.append(checked)

    def skipped(self, replicator: PartitionReplicator, checked: OffsetRange) -> None:
        self.checked.append(checked)

    def dead_letter(self, replicator: PartitionReplicator, rejection: Rejection) -> None:
        self.letters.append(rejection)

    def left_out(self, replicator: PartitionReplicator, checked: OffsetRange) -> None:
        self.checked.append(checked)

    def passed_over(self, replicator: PartitionReplicator, checked: OffsetRange) -> None:
        self.checked.append(checked)

    def lost(self, replicator: PartitionReplicator, loss: Loss) -> None:
        self.losses.append(loss)

    def truncated(self, replicator: PartitionReplicator, offset: int) -> None:
        self.truncations.append(offset)

    def drained(self, replicator: PartitionReplicator) -> None:
        self.drained_partitions += 1

    def remote_end_moved_back(self, replicator: PartitionReplicator) -> None:
        self.remote_end_moves += 1


def partition(
    start: int | None = 0,
    *,
    max_held_bytes: int = 100_000,
    rules: BatchRules | None = None,
    epochs: EpochStarts = (),
    transform: FrameTransform | None = None,
    metrics: PartitionMetrics | None = None,
    **options: Any,
) -> tuple[PartitionReplicator, RecordingListener]:
    """``options``: of `PartitionOptions`."""
    listener = RecordingListener()
    lease = PartitionLease(
        topic="orders", partition=3, remote_topic="A.orders", start_offset=start, leader_epochs=epochs
    )
    replicator = replicator_of(
        lease, listener, max_held_bytes=max_held_bytes, rules=rules, transform=transform, metrics=metrics, **options
    )
    replicator.set_producer_id(ProducerId(7, 0))
    return replicator, listener


def replicator_of(
    lease: PartitionLease,
    listener: RecordingListener,
    *,
    max_held_bytes: int = 100_000,
    rules: BatchRules | None = None,
    policy: LossPolicy | None = None,
    dead_letters: str | None = None,
    transform: FrameTransform | None = None,
    metrics: PartitionMetrics | None = None,
    **options: Any,
) -> PartitionReplicator:
    """``options``: of `PartitionOptions`."""
    return PartitionReplicator(
        lease,
        callbacks_to(listener),
        PartitionOptions(
            rules=rules or BatchRules(tiny_bytes=0),
            max_in_flight=5,
            max_held_bytes=max_held_bytes,
            check_crcs=True,
            dead_letters=dead_letters,
            policy=policy or LossPolicy(),
            transform=transform,
            **options,
        ),
        source_backoff=Backoff(100, 1000, generator=random.Random(1)),
        target_backoff=Backoff(100, 1000, generator=random.Random(1)),
        counts=Counter[Reason](),
        now=0.0,
        metrics=metrics,
    )


def data(offset: int, count: int = 1, value_bytes: int = 10, *, epoch: int = -1) -> bytes:
    timestamp = int((WALL - 5) * 1000)
    records = [Record(offset + number, timestamp, b"k", b"v" * value_bytes) for number in range(count)]
    raw = bytearray(Batch(records=records).encode())
    base, length, _, *fields = HEADER.unpack_from(raw)
    return sealed(raw, (base, length, epoch, *fields))


def fetched(*blobs: bytes) -> FetchedPartition:
    return FetchedPartition("orders", 3, 0, 100, 100, 0, (), -1, b"".join(blobs))


def arrive(replicator: PartitionReplicator, *blobs: bytes, end: int = 100, now: float = 0.0) -> int:
    asked = replicator.fetch_offset
    assert asked is not None
    return replicator.fetched(asked, fetched(*blobs), end, now, WALL)


def is_failed(replicator: PartitionReplicator) -> bool:
    return replicator.progress(0.0, WALL).state is TaskState.FAILED


def message(replicator: PartitionReplicator) -> str | None:
    return replicator.progress(0.0, WALL).error


def send(replicator: PartitionReplicator, now: float = 0.0) -> list[InFlightBatch]:
    entries = []
    while replicator.can_send(now):
        entry = replicator.next_batch(now)
        assert entry is not None
        entries.append(entry)
    return entries
