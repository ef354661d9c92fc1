"""Segment files of a stopped broker, to damage batches in them."""

from __future__ import annotations

from pathlib import Path

from tests.lab import scratch
from tests.lab.batches import HEADER
from tests.lab.broker import Broker

HEADER_BYTES = 61
LENGTH_END = 12


def damage_batch(broker: Broker, topic: str, offset: int, at: int = HEADER_BYTES) -> range:
    """Flip a bit of byte ``at`` of the batch of partition 0 that contains ``offset``; returns the batch's offsets.

    The broker must have ended regularly: after a crash it would check the segments and truncate the damaged one.
    """
    path = _segment(broker, topic)
    data = bytearray(path.read_bytes())
    start = 0
    while start < len(data):
        fields = HEADER.unpack_from(data, start)
        offsets = range(fields[0], fields[0] + fields[6] + 1)
        if offset in offsets:
            data[start + at] ^= 1
            path.write_bytes(data)
            return offsets
        start += LENGTH_END + fields[1]
    raise ValueError(f"{path} has no batch with offset {offset}")


def _segment(broker: Broker, topic: str) -> Path:
    return broker.directory / scratch.DATA / f"{topic}-0" / f"{0:020d}.log"
