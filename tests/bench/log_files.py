"""Size, batches and transaction markers of a topic on a broker's disk."""

from __future__ import annotations

import mmap
import struct
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.stored_batches import partition_of, read_batches, segments

# A batch in a segment file: base offset (int64), length of the rest (int32), and that many bytes.
BATCH_PREFIX = struct.Struct(">qi")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Number of bytes and batches of a whole topic."""

    bytes: int
    batches: int


def stored(cluster: KafkaCluster, topic: str) -> Stored:
    """Return the size of a topic from its segment files. The cluster must have a single broker."""
    size = batches = 0
    for segment in segments(cluster.broker(1).directory / scratch.DATA, topic):
        if segment.stat().st_size:
            with segment.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                size += len(content)
                batches += count_batches(content)
    return Stored(bytes=size, batches=batches)


def count_batches(content: mmap.mmap | bytes) -> int:
    """Return the number of consecutive batches in ``content``."""
    place = batches = 0
    while place < len(content):
        _, length = BATCH_PREFIX.unpack_from(content, place)
        place += BATCH_PREFIX.size + length
        batches += 1
    return batches


class Markers:
    """Offsets of the transaction markers of a topic, from the data directory of the only broker that has it.

    Each refresh reads only the headers of new batches.
    """

    def __init__(self, directory: Path, topic: str) -> None:
        self._directory = directory
        self._topic = topic
        self._read: defaultdict[Path, int] = defaultdict(int)  # bytes of each segment
        self._offsets: defaultdict[int, list[int]] = defaultdict(list)  # by partition

    def refresh(self) -> None:
        """Read what the broker has appended."""
        for segment in segments(self._directory, self._topic):
            if segment.stat().st_size > self._read[segment]:
                with segment.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                    for batch, end in read_batches(partition_of(segment), content, self._read[segment]):
                        self._read[segment] = end
                        if batch.control:
                            self._offsets[batch.partition].append(batch.base_offset)

    def count_before(self, ends: Mapping[int, int]) -> int:
        """Return the number of markers before the given offset of each partition."""
        return sum(sum(offset < ends.get(number, 0) for offset in found) for number, found in self._offsets.items())
