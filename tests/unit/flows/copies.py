"""A partition's copy without a slot around it."""

from __future__ import annotations

import random
from collections import Counter

from flows.batch.choice import BatchRules, Reason
from flows.batch.outgoing import Outgoing, ProducerId
from flows.copy import PartitionCopy
from flows.surroundings import Seen
from mm2.core.lease import PartitionLease
from mm2.kafka.backoff import Backoff


class Slot:
    """Remembers what the partition asked for."""

    def __init__(self) -> None:
        self.released = 0
        self.pauses: list[float] = []
        self.acknowledged_batches: list[tuple[int, int]] = []
        self.seen: list[Seen] = []

    def release(self, count: int) -> None:
        self.released += count

    def fetch_changed(self, copy: PartitionCopy) -> None: ...

    def send_changed(self, copy: PartitionCopy) -> None: ...

    def wake_later(self, copy: PartitionCopy, delay: float) -> None:
        self.pauses.append(delay)

    def acknowledged(self, copy: PartitionCopy, batch: Outgoing, base_offset: int, seen: Seen) -> None:
        self.acknowledged_batches.append((batch.first_offset, base_offset))
        self.seen.append(seen)

    def passed(self, copy: PartitionCopy, seen: Seen) -> None:
        self.seen.append(seen)


def partition(
    start: int | None = 0, *, max_held: int = 100_000, rules: BatchRules | None = None
) -> tuple[PartitionCopy, Slot]:
    slot = Slot()
    lease = PartitionLease(topic="orders", partition=3, remote_topic="A.orders", start_offset=start)
    copy = copy_of(lease, slot, max_held=max_held, rules=rules)
    copy.adopt(ProducerId(7, 0))
    return copy, slot


def copy_of(
    lease: PartitionLease, slot: Slot, *, max_held: int = 100_000, rules: BatchRules | None = None
) -> PartitionCopy:
    return PartitionCopy(
        lease,
        slot,
        rules=rules or BatchRules(tiny_bytes=0),
        max_in_flight=5,
        max_held=max_held,
        check_crcs=True,
        source_backoff=Backoff(100, 1000, generator=random.Random(1)),
        target_backoff=Backoff(100, 1000, generator=random.Random(1)),
        counts=Counter[Reason](),
        now=0.0,
    )
