"""The codecs of record batches, in the framings Kafka's own clients read and write.

What is written: gzip as one member; snappy in xerial framing; lz4 in frame format with independent blocks of 64 KiB and
no content checksum (KIP-57); zstd as one frame. `mm2.kafka.decompression` has the framings that are read.

Levels are compression.*.level of KIP-390. None means Java's default: gzip 6, zstd 3, and for lz4 the fast compressor,
which Java also uses for level 9, its default.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable

import cramjam

from flows.batch.header import BatchTooLargeError, CorruptBatchError
from mm2.kafka.decompression import (
    XERIAL_HEADER,
    Buffer,
    Codec,
    DecompressionError,
    OutputTooLargeError,
    decompress,
)

_SNAPPY_BLOCK = 32 * 1024  # the block size of Java's SnappyOutputStream
_BLOCK_LENGTH = struct.Struct(">i")
_LZ4_FAST = 1  # liblz4 uses its fast compressor below level 3
_LZ4_JAVA_DEFAULT = 9
_LZ4_HIGH = (3, 12)  # liblz4's range of the high compressor


def codec_named(name: str) -> Codec:
    """Return the codec of a compression.type. Raises KeyError for unknown names."""
    return Codec[name.upper()]


def records_of(offset: int, codec: int, data: Buffer, limit: int) -> bytes:
    """Return the uncompressed records of the batch at source offset ``offset``, at most ``limit`` bytes.

    Raises CorruptBatchError if they are invalid for the codec, and BatchTooLargeError beyond the limit.
    """
    try:
        return decompress(codec, data, limit)
    except DecompressionError as error:
        raise CorruptBatchError(f"batch at offset {offset}: {error}") from error
    except OutputTooLargeError as error:
        raise BatchTooLargeError(
            f"batch at offset {offset} is too large to rebuild: {error}; raise max.partition.fetch.bytes of the flow's "
            "consumer"
        ) from None


def compress(codec: int, level: int | None, data: Buffer) -> Buffer:
    """Compress ``data`` in the framing that Kafka's clients expect."""
    if codec == Codec.NONE:
        return data
    return _COMPRESS[codec](level, data)


def _gzip(level: int | None, data: Buffer) -> bytes:
    return gzip.compress(data, 6 if level is None or level < 0 else level, mtime=0)


def _snappy(_: int | None, data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [XERIAL_HEADER]
    for at in range(0, len(view), _SNAPPY_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _SNAPPY_BLOCK]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _lz4(level: int | None, data: Buffer) -> bytes:
    low, high = _LZ4_HIGH
    fast = level is None or level == _LZ4_JAVA_DEFAULT
    compressor = cramjam.lz4.Compressor(
        level=_LZ4_FAST if fast else min(max(level or 0, low), high), content_checksum=False, block_linked=False
    )
    compressor.compress(data)
    return bytes(compressor.finish())


def _zstd(level: int | None, data: Buffer) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


_COMPRESS: dict[int, Callable[[int | None, Buffer], bytes]] = {
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
