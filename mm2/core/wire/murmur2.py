"""The murmur2 hash that Kafka's Java producer uses to choose a partition for a key (Utils.murmur2).

Connect looks up an offset by its key's bytes in the whole topic. Two writers with different hashes would leave two
values of one key in two partitions, and compaction would never remove the older one.
"""

from __future__ import annotations

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF  # Java's int arithmetic wraps at 32 bits


def murmur2(data: bytes) -> int:
    """Return the hash of ``data`` as an unsigned 32-bit number; Java's is signed, with the same bits."""
    hashed = _SEED ^ len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        hashed = hashed * _MULTIPLIER & _MASK ^ word
    if whole < len(data):
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition that Java's default partitioner chooses for this key in a topic with ``partitions``."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions  # without the sign bit: Java has no unsigned remainder
