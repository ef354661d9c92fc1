"""Source offsets: how far each partition is copied, stored on the target as Java stores it (mm2-compat §2.3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial

from flows.copy import PartitionCopy
from mm2.core.connect_offsets import SourceKey, encode_key, encode_offset
from mm2.core.lease import OffsetsLease
from mm2.core.murmur2 import partition_of
from mm2.kafka.control_producer import ControlProducer
from mm2.kafka.errors import ClusterClosed, ClusterError

log = logging.getLogger("mm2.offsets")

BEFORE_THE_BEGINNING = -1


class SourceOffsets:
    """Writes the last copied offset of partitions that moved.

    (A) What is written lies before the partition's ``position``: the target has acknowledged it and all before it.
    (B) A partition has one write under way at a time, so that an older offset never comes after a newer one.
    (C) Of a topic made anew first the offset before its beginning is stored, -1. For Java, too, that means that nothing
        is copied yet; what the topic of before left there would let a restart begin in the middle of the new one.
    """

    def __init__(self, producer: ControlProducer, lease: OffsetsLease, *, source: str) -> None:
        """``source`` is the source cluster's alias."""
        self._producer = producer
        self._lease = lease
        self._source = source
        self._moved: set[PartitionCopy] = set()
        self._writing: dict[PartitionCopy, asyncio.Future[int]] = {}
        self.trouble: str | None = None

    def is_clean(self, copy: PartitionCopy) -> bool:
        """Whether everything acknowledged of this partition is stored."""
        return copy not in self._moved and copy not in self._writing

    def moved(self, copy: PartitionCopy) -> None:
        """The target acknowledged more of this partition, or it begins anew."""
        self._moved.add(copy)

    def due(self) -> dict[PartitionCopy, int]:
        """What there is to write now: the last copied offsets of partitions that moved."""
        due: dict[PartitionCopy, int] = {}
        for copy in self._moved:
            if copy.begins_anew:
                due[copy] = BEFORE_THE_BEGINNING
            elif copy.headway.last_copied is not None:
                due[copy] = copy.headway.last_copied
        return due

    def write(self, due: Mapping[PartitionCopy, int]) -> None:
        """Write these (`due`) unless one of their partition is being written."""
        for copy, offset in due.items():
            if copy in self._writing:
                continue
            key = encode_key(SourceKey(cluster=self._source, topic=copy.source.topic, partition=copy.source.partition))
            try:
                written = self._producer.send(
                    self._lease.topic, partition_of(key, self._lease.partitions), key, encode_offset(offset)
                )
            except ClusterError as error:
                self._failed(error)
                return
            self._moved.discard(copy)
            self._writing[copy] = written
            written.add_done_callback(partial(self._written, copy, offset))

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
            copy.headway.stored = offset + 1
            copy.begins_anew = False
            self.trouble = None
            if copy.headway.last_copied is not None and copy.headway.last_copied > offset:
                self._moved.add(copy)
        else:
            self._moved.add(copy)
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        words = f"store source offsets in {self._lease.topic}: {error}"
        if words != self.trouble:
            log.warning("%s", words)
        self.trouble = words
