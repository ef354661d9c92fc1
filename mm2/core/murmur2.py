"""murmur2 as Kafka's Java producer uses it to choose a partition for a key.

Connect reads an offset back by its key's bytes from the whole topic, but two writers that hash differently would leave
two live values of one key in two partitions, and compaction would never remove the older one (mm2-compat §2.3).
"""

from __future__ import annotations

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF  # Java's int arithmetic wraps at 32 bits


def murmur2(data: bytes) -> int:
    """The hash of ``data`` as an unsigned 32-bit number; Java shows the same bits signed."""
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
    """The partition Java's default partitioner gives a record with this key in a topic of ``partitions``."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions  # the sign bit goes: Java has no unsigned remainder
