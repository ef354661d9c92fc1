"""The codecs of record batches, in the framings Kafka's own clients read and write.

    gzip    one RFC 1952 member
    snappy  xerial framing: 82 53 4e 41 50 50 59 00 | version i32 = 1 | compatible i32 = 1 | (length i32 | raw block)*
            blocks hold 32 KiB of input; librdkafka writes one raw block without framing, which is read as well
    lz4     frame format, independent blocks of 64 KiB, no content checksum (KIP-57)
    zstd    frames

Levels are compression.*.level of KIP-390. None means Java's default: gzip 6, zstd 3, and for lz4 the fast compressor,
which Java also takes at the "level" 9 it calls default.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from enum import IntEnum

import cramjam

from flows.batch.header import CorruptBatchError


class Codec(IntEnum):
    """Bits 0-2 of a batch's attributes; the names are the values of compression.type."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


Buffer = bytes | memoryview

_XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC = _XERIAL[:8]
_SNAPPY_BLOCK = 32 * 1024  # the block size of Java's SnappyOutputStream
_BLOCK_LENGTH = struct.Struct(">i")
_LZ4_FAST = 1  # liblz4 takes its fast compressor below level 3
_LZ4_JAVA_DEFAULT = 9
_LZ4_HIGH = (3, 12)  # liblz4's range of the high compressor


def codec_named(name: str) -> Codec:
    """The codec of a compression.type. Raises KeyError for other words."""
    return Codec[name.upper()]


def decompress(codec: int, data: Buffer) -> bytes:
    """The records of a batch, uncompressed. Raises CorruptBatchError when ``data`` is not what the codec writes."""
    if codec == Codec.NONE:
        return bytes(data)
    try:
        return _DECOMPRESS[codec](data)
    except KeyError:
        raise CorruptBatchError(f"codec {codec} is not known") from None
    except (OSError, EOFError, zlib.error, struct.error, cramjam.DecompressionError) as error:
        raise CorruptBatchError(f"records cannot be decompressed as {Codec(codec).name.lower()}: {error}") from error


def compress(codec: int, level: int | None, data: Buffer) -> Buffer:
    """``data`` compressed as Kafka's readers expect it."""
    if codec == Codec.NONE:
        return data
    return _COMPRESS[codec](level, data)


def _gunzip(data: Buffer) -> bytes:
    return gzip.decompress(data)


def _gzip(level: int | None, data: Buffer) -> bytes:
    return gzip.compress(data, 6 if level is None or level < 0 else level, mtime=0)


def _unsnappy(data: Buffer) -> bytes:
    if bytes(data[:8]) != _XERIAL_MAGIC:
        return bytes(cramjam.snappy.decompress_raw(data))
    view = memoryview(data)
    blocks = []
    at = len(_XERIAL)
    while at < len(view):
        (length,) = _BLOCK_LENGTH.unpack_from(view, at)
        at += _BLOCK_LENGTH.size
        blocks.append(cramjam.snappy.decompress_raw(view[at : at + length]))
        at += length
    return b"".join(blocks)


def _snappy(_: int | None, data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL]
    for at in range(0, len(view), _SNAPPY_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _SNAPPY_BLOCK]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _unlz4(data: Buffer) -> bytes:
    return bytes(cramjam.lz4.decompress(data))


def _lz4(level: int | None, data: Buffer) -> bytes:
    low, high = _LZ4_HIGH
    fast = level is None or level == _LZ4_JAVA_DEFAULT
    compressor = cramjam.lz4.Compressor(
        level=_LZ4_FAST if fast else min(max(level or 0, low), high), content_checksum=False, block_linked=False
    )
    compressor.compress(data)
    return bytes(compressor.finish())


def _unzstd(data: Buffer) -> bytes:
    return bytes(cramjam.zstd.decompress(data))


def _zstd(level: int | None, data: Buffer) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


_DECOMPRESS: dict[int, Callable[[Buffer], bytes]] = {
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
_COMPRESS: dict[int, Callable[[int | None, Buffer], bytes]] = {
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
