"""Messages in the formats before Kafka 0.11, written field by field as those releases did (magic 0 and 1)."""

from __future__ import annotations

import gzip
import struct
import zlib

import cramjam

from tests.lab.cluster import KafkaCluster

GZIP, SNAPPY, LZ4 = 1, 2, 3
APPEND_TIME = 0x08


def message(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int,
    timestamp: int = -1,
    attributes: int = 0,
) -> bytes:
    """Return one message; ``timestamp`` (epoch ms) is only in magic 1."""
    covered = struct.pack(">bb", magic, attributes)
    if magic:
        covered += struct.pack(">q", timestamp)
    for field in (key, value):
        covered += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    return struct.pack(">qiI", offset, 4 + len(covered), zlib.crc32(covered)) + covered


def wrapper(inside: bytes, codec: int, *, magic: int, offset: int, timestamp: int = -1, attributes: int = 0) -> bytes:
    """Return a message that contains the messages of ``inside``, compressed; ``offset`` is that of the last of them."""
    value = compressed(inside, codec, magic=magic)
    return message(offset, None, value, magic=magic, timestamp=timestamp, attributes=codec | attributes)


def compressed(data: bytes, codec: int, *, magic: int) -> bytes:
    """Return ``data`` as the producers of these releases compressed it."""
    if codec == GZIP:
        return gzip.compress(data)
    if codec == SNAPPY:  # in blocks, after the header of the library that Java uses
        block = bytes(cramjam.snappy.compress_raw(data))
        return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block
    compressor = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
    compressor.compress(data)
    frame = bytearray(bytes(compressor.finish()))
    if magic == 0:  # the checksum of the header also covered the four bytes before it (KAFKA-3160)
        frame[_CHECKSUM_AT] ^= 0x55
    return bytes(frame)


_CHECKSUM_AT = 6  # after the frame's magic number, flags and block size


def plant(cluster: KafkaCluster, topic: str, messages: bytes) -> None:
    """Replace the log of the topic's only partition, in which nothing was written, by ``messages``.

    Brokers no longer write these formats, so the segment file is written while the broker is stopped.
    """
    broker = cluster.broker(1)
    broker.stop()
    (segment,) = broker.directory.glob(f"**/{topic}-0/00000000000000000000.log")
    for file in segment.parent.glob("*.*index"):
        file.unlink()
    segment.write_bytes(messages)
    broker.start()
    broker.wait_ready()


def every_shape(first: int) -> list[tuple[bytes, int]]:
    """Return messages of both formats, with every codec, one after the other from offset ``first`` on.

    Each with the number of records in it.
    """
    found: list[tuple[bytes, int]] = []
    offset = first
    for magic in (0, 1):
        shapes = [(b"k%d" % offset, b"value"), (None, b"no key"), (b"tombstone", None), (b"", b"")]
        for key, value in shapes:
            found.append((message(offset, key, value, magic=magic, timestamp=_FIRST_MS + offset), 1))
            offset += 1
        for codec in (GZIP, SNAPPY, LZ4):
            for append_time in (0, APPEND_TIME) if magic else (0,):
                inside = b"".join(
                    message(
                        number if magic else offset + number,
                        b"%d" % number,
                        bytes([number]) * 400,
                        magic=magic,
                        timestamp=_FIRST_MS + offset + number,
                    )
                    for number in range(50)
                )
                offset += 50
                one = wrapper(
                    inside,
                    codec,
                    magic=magic,
                    offset=offset - 1,
                    timestamp=_FIRST_MS + offset + 1_000_000,
                    attributes=append_time,
                )
                found.append((one, 50))
    return found


_FIRST_MS = 1_400_000_000_000  # in 2014
