"""What stores the offsets of a source task, with its own producers."""

from __future__ import annotations

from typing import Protocol

from flows.commit.committer import Committer
from flows.commit.exact_offset_writer import ExactOffsetWriter
from flows.commit.loss_writer import LossWriter
from flows.commit.offset_committer import OffsetCommitter
from flows.commit.offset_sync_writer import OffsetSyncWriter
from flows.commit.reported_offsets import ReportedOffsets
from flows.commit.transaction_committer import TransactionalJournals, TransactionCommitter
from flows.partition.timeouts import Timeouts
from mm2.core.lanes.lease import SourceTaskLease
from mm2.core.settings.client import ClientSettings
from mm2.kafka.logs.control_producer import ControlProducer


class NewProducer(Protocol):
    """Opens a producer that the source task closes when it ends."""

    async def __call__(self, settings: ClientSettings, purpose: str, /) -> ControlProducer: ...


async def open_committer(lease: SourceTaskLease, producer: NewProducer, timeouts: Timeouts) -> Committer:
    """Return the committer for the lease: with transactions, source offsets and exact offsets are written in them."""
    if lease.offsets is None:
        return ReportedOffsets()
    offsets, syncs, exact, losses = lease.offsets, lease.offset_syncs, lease.exact_offsets, lease.losses
    source = lease.offsets.source_alias
    loss_writer = LossWriter(
        await producer(losses.client, "losses") if losses is not None else None,
        losses,
        patience_s=timeouts.loss_patience_s,
    )
    sync_writer = OffsetSyncWriter(await producer(syncs.client, "syncs"), syncs) if syncs is not None else None
    if lease.transactions is not None:
        return TransactionCommitter(
            offsets,
            source=source,
            losses=loss_writer,
            syncs=sync_writer,
            exact=TransactionalJournals(exact) if exact is not None else None,
        )
    return OffsetCommitter(
        await producer(offsets.client, "offsets"),
        offsets,
        source=source,
        losses=loss_writer,
        syncs=sync_writer,
        exact=ExactOffsetWriter(await producer(exact.client, "exact offsets"), exact) if exact is not None else None,
    )
