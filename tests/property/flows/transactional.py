"""Model of a source task that copies one partition in transactions: with aborts, crashes and a fencing target."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from flows.batch.target_batch import ProducerId, TargetBatch
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import OffsetRange
from flows.transaction.transaction import Transaction
from mm2.core.lanes.lease import TransactionsLease
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.lab.batches import HEADER, Record
from tests.property.flows.model import World, contents
from tests.property.flows.model_partitions import Source, Target

TRANSACTIONAL = 0x10


@dataclass
class TransactionalTarget(Target):
    """A target that rejects batches outside the open transaction, and of former epochs."""

    is_open: bool = False
    epoch: int = 0
    committed: list[Record] = field(default_factory=list)  # what read_committed consumers see
    uncommitted_from: int = 0

    def _append(self, raw: bytes) -> tuple[int, int]:
        fields = HEADER.unpack_from(raw)
        assert fields[5] & TRANSACTIONAL, "every batch is transactional"
        if fields[10] != self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if not self.is_open:
            return ErrorCode.INVALID_TXN_STATE, -1
        return super()._append(raw)

    def end(self, *, commit: bool) -> None:
        """End the transaction with a marker, which takes an offset."""
        if commit:
            self.committed += self.records[self.uncommitted_from :]
        self.records.append(Record(len(self.records), 0, b"marker", b""))
        self.uncommitted_from = len(self.records)
        self.is_open = False

    def next_epoch(self) -> int:
        """Fence the producer, and forget its sequences."""
        if self.is_open:
            self.end(commit=False)
        self.epoch += 1
        self.producers.clear()
        return self.epoch


class TransactionalWorld(World):
    """``stored``: the committed source offset, as in the offsets topic; None: there is none."""

    target: TransactionalTarget

    def __init__(self, source: Source, target: TransactionalTarget, rng: random.Random, **options: object) -> None:
        super().__init__(source, target, rng, **options)  # type: ignore[arg-type]
        self.stored: int | None = None
        self.commits = self.aborts = self.crashes = 0
        self.transaction: Transaction | None = None

    # -- listener

    def acknowledged(
        self, replicator: PartitionReplicator, batch: TargetBatch, base_offset: int, checked: OffsetRange
    ) -> None: ...

    def skipped(self, replicator: PartitionReplicator, checked: OffsetRange) -> None: ...

    def left_out(self, replicator: PartitionReplicator, checked: OffsetRange) -> None: ...

    def passed_over(self, replicator: PartitionReplicator, checked: OffsetRange) -> None: ...

    def remote_end_moved_back(self, replicator: PartitionReplicator) -> None: ...

    @property
    def is_copied(self) -> bool:
        return self.replicator.committed_position >= self.source.end and self.transaction is None

    # -- steps

    def step(self) -> None:
        """Perform a step of the transactions, or one of the partition."""
        chance = self.rng.random()
        transaction = self.transaction
        if self.target.faulty and chance < 0.01:
            self._crash()
        elif transaction is not None and (self.replicator.needs_producer_id or (self.target.faulty and chance < 0.02)):
            self._abort()
        elif transaction is None and self.replicator.needs_commit and (self.query is None or chance < 0.3):
            self._commit()  # of offsets only: records were left out, or dropped by a query
        elif transaction is not None and chance < 0.15:
            if transaction.is_closing and not transaction.uncertain:
                self._commit()
            else:
                transaction.close()
        else:
            super().step()

    def check(self) -> None:
        super().check()
        assert self.replicator.committed_position <= max(self.replicator.position, 0)

    def _adopt(self) -> None:
        if self.transaction is None and not self.replicator.batches_in_flight:
            self.replicator.set_producer_id(ProducerId(1, self.target.next_epoch(), transactional=True))

    def _send(self) -> None:
        if self.transaction is None:
            self.transaction = Transaction(TransactionsLease())
        if not self.transaction.admits(self.replicator):
            if self.transaction.pending_partitions:
                self.target.is_open = True
                self.transaction.partitions_added([self.replicator], self.now)
            return
        super()._send()

    def _commit(self) -> None:
        replicator = self.replicator
        offsets = replicator.offsets_to_commit
        self.target.end(commit=True)
        replicator.transaction_committed(offsets, self.now, self.now)
        self.stored = offsets[-1] if offsets else self.stored
        self.transaction = None
        self.commits += 1
        self._judge()

    def _judge(self) -> None:
        """Consumers see exactly the records up to the stored offset."""
        stored = -1 if self.stored is None else self.stored
        wanted = self.expected([one for one in self.source.records if one.offset <= stored])
        assert contents(self.target.committed) == wanted

    def _abort(self) -> None:
        self.replicator.await_roll_back(self.now)
        self.target.end(commit=False)
        while self.requests or self.answers:
            (self._process if self.requests else self._answer)()
            if self.query is not None and self.query.frames and self.rng.random() < 0.3:
                self._transform()
        self.replicator.roll_back(self.now)
        self.replicator.set_producer_id(ProducerId(1, self.target.next_epoch(), transactional=True))
        assert self.replicator.committed_position == self.replicator.position
        self.transaction = None
        self.aborts += 1

    def _crash(self) -> None:
        """The lane ends; its successor fences it, and starts from the stored offset."""
        while self.requests:
            self._process()  # what was sent may still arrive
        self.target.next_epoch()
        self._judge()
        self.held = 0
        self.limit_wanted = False
        self.pending_letter = self.transaction = None
        self.alarms.clear()
        self.fetches.clear()
        self.answers.clear()
        if self.query is not None:
            self.query.frames.clear()
        self._is_fetch_read = self._is_offered = False
        self.replicator = self.new_replicator(0 if self.stored is None else self.stored + 1)
        self.crashes += 1

    def new_replicator(self, start: int | None, **lease: Any) -> PartitionReplicator:
        replicator = super().new_replicator(start, **lease)
        replicator.is_transactional = True
        return replicator
