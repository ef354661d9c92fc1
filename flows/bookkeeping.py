"""What the target acknowledged, written down: exact offsets first, then source offsets, then offset syncs."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from flows.batch.outgoing import Outgoing
from flows.copy import PartitionCopy
from flows.exact_offsets import ExactOffsets
from flows.offsets import SourceOffsets
from flows.surroundings import Seen
from flows.syncs import OffsetSyncs
from mm2.core.lease import PartitionLease

FLUSH_TIMEOUT_S = 5.0
"""How long one kind of record is waited for before the next kind is written all the same: as long as by default in
Java (offset.flush.timeout.ms)."""


class Bookkeeping:
    """One slot's. ``syncs`` and ``exact`` None: the flow does not write them.

    (A) A source offset is handed over only after the exact offsets of what it covers were, and had their time.
    """

    def __init__(self, *, offsets: SourceOffsets, syncs: OffsetSyncs | None, exact: ExactOffsets | None) -> None:
        self._offsets = offsets
        self._syncs = syncs
        self._exact = exact
        self._flushing = asyncio.Lock()

    @property
    def trouble(self) -> str | None:
        """What keeps source offsets or syncs from being written."""
        return self._offsets.trouble or (self._syncs.trouble if self._syncs is not None else None)

    @property
    def warning(self) -> str | None:
        """What keeps exact offsets from being written, without which all goes on."""
        return self._exact.trouble if self._exact is not None else None

    def begin(self, copy: PartitionCopy, lease: PartitionLease) -> None:
        """The slot copies this partition from now on."""
        if copy.begins_anew:
            self._offsets.moved(copy)
        if self._exact is not None:
            self._exact.begin(copy, lease)

    def acknowledged(self, copy: PartitionCopy, batch: Outgoing, base_offset: int, seen: Seen) -> None:
        """The target has a batch (`flows.surroundings.Surroundings.acknowledged`)."""
        self._offsets.moved(copy)
        if self._exact is not None:
            self._exact.acknowledged(copy, batch, base_offset, seen)
        if self._syncs is not None and base_offset >= 0:
            self._syncs.acked(copy.source, batch.runs, base_offset)

    def passed(self, copy: PartitionCopy, seen: Seen) -> None:
        """Source offsets that carry no record were gone over."""
        if self._exact is not None:
            self._exact.passed(copy, seen)

    def identified(self, copy: PartitionCopy) -> None:
        """The copy's ``topic_ids`` are others than before, or were not known."""
        if self._exact is not None:
            self._exact.identified(copy)

    async def flush(self) -> None:
        """Write what there is to write, source offsets last. What cannot be written in time is written later."""
        async with self._flushing:
            due = self._offsets.due()
            if self._exact is not None:
                self._exact.write()
                await self._exact.settle(FLUSH_TIMEOUT_S)
            self._offsets.write(due)
            await self._offsets.settle(FLUSH_TIMEOUT_S)

    def commit(self) -> None:
        """Source offsets were stored: syncs that were held back go out."""
        if self._syncs is not None:
            self._syncs.commit()

    def is_clean(self, copy: PartitionCopy) -> bool:
        """Whether everything acknowledged of this partition is stored."""
        return self._offsets.is_clean(copy)

    async def close(self, copies: Collection[PartitionCopy]) -> None:
        """These partitions leave the slot: their syncs go out, and nothing of them is kept. The caller bounds the
        wait."""
        self.commit()
        if self._syncs is not None:
            await self._syncs.settle()
        for copy in copies:
            if self._syncs is not None:
                self._syncs.forget(copy.source)
            if self._exact is not None:
                self._exact.forget(copy)
