"""A broker's log that has lost its end, as after an unclean leader election."""

from __future__ import annotations

from tests.lab.batches import HEADER
from tests.lab.broker import Broker

BATCH_OVERHEAD = 12  # bytes of a batch before those that its length field counts
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")


def truncate_log(broker: Broker, topic: str, end: int, *, partition: int = 0) -> None:
    """Stop the broker and cut the partition's only segment, so that it ends at offset ``end``, where a batch begins.

    As after a crash, the broker then reads the segment again when it starts, and begins a new leader epoch there.
    """
    if broker.process.running:
        broker.stop()
    (segment,) = broker.directory.glob(f"**/{topic}-{partition}/00000000000000000000.log")
    raw = segment.read_bytes()
    at = 0
    while HEADER.unpack_from(raw, at)[0] < end:
        at += BATCH_OVERHEAD + HEADER.unpack_from(raw, at)[1]
    assert HEADER.unpack_from(raw, at)[0] == end, f"no batch of {topic}-{partition} begins at offset {end}"
    segment.write_bytes(raw[:at])
    for other in segment.parent.iterdir():
        if other.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            other.unlink()
    for name in (CLEAN_SHUTDOWN, *CHECKPOINTS):
        (segment.parent.parent / name).unlink(missing_ok=True)
