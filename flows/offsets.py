"""Source offsets: how far each partition is copied, stored on the target as Java stores it (mm2-compat §2.3)."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from flows.copy import PartitionCopy
from mm2.core.connect_offsets import SourceKey, encode_key, encode_offset
from mm2.core.lease import OffsetsLease
from mm2.core.murmur2 import partition_of
from mm2.kafka.control_producer import ControlProducer
from mm2.kafka.errors import ClusterClosed, ClusterError

log = logging.getLogger("mm2.offsets")


class SourceOffsets:
    """Writes the last copied offset of partitions that moved.

    (A) What is written lies before the partition's ``position``: the target has acknowledged it and all before it.
    (B) A partition has one write under way at a time, so that an older offset never comes after a newer one.
    """

    def __init__(self, producer: ControlProducer, lease: OffsetsLease, *, source: str) -> None:
        """``source`` is the source cluster's alias."""
        self._producer = producer
        self._lease = lease
        self._source = source
        self._moved: set[PartitionCopy] = set()
        self._writing: dict[PartitionCopy, asyncio.Future[int]] = {}
        self.trouble: str | None = None

    @property
    def clean(self) -> bool:
        """Whether everything acknowledged is stored."""
        return not (self._moved or self._writing)

    def is_clean(self, copy: PartitionCopy) -> bool:
        """Whether everything acknowledged of this partition is stored."""
        return copy not in self._moved and copy not in self._writing

    def moved(self, copy: PartitionCopy) -> None:
        """The target acknowledged more of this partition."""
        self._moved.add(copy)

    def write(self) -> None:
        """Write what moved and is not being written."""
        for copy in list(self._moved):
            if copy in self._writing or copy.last_copied is None:
                continue
            key = encode_key(SourceKey(cluster=self._source, topic=copy.source.topic, partition=copy.source.partition))
            try:
                written = self._producer.send(
                    self._lease.topic, partition_of(key, self._lease.partitions), key, encode_offset(copy.last_copied)
                )
            except ClusterError as error:
                self._failed(error)
                return
            self._moved.discard(copy)
            self._writing[copy] = written
            written.add_done_callback(partial(self._written, copy, copy.last_copied))

    async def settle(self, timeout: float) -> None:
        """Wait until what is being written is stored, ``timeout`` seconds at most."""
        if self._writing:
            await asyncio.wait(list(self._writing.values()), timeout=timeout)

    def _written(self, copy: PartitionCopy, offset: int, done: asyncio.Future[int]) -> None:
        del self._writing[copy]
        if done.cancelled():
            self._moved.add(copy)
            return
        error = done.exception()
        if isinstance(error, ClusterClosed):
            return
        if error is None:
            copy.stored = offset + 1
            self.trouble = None
        else:
            self._moved.add(copy)
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        words = f"store source offsets in {self._lease.topic}: {error}"
        if words != self.trouble:
            log.warning("%s", words)
        self.trouble = words
