"""Size and batches of a topic on a broker's disk."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass

from tests.lab.cluster import KafkaCluster

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
    for segment in (cluster.broker(1).directory / ".data").glob(f"{topic}-[0-9]*/*.log"):
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
