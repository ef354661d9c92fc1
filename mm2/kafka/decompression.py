"""Decompression of record batches, in the framings Kafka's own clients write, with a limit of the output.

    gzip    RFC 1952 members, usually one
    snappy  xerial framing: 82 53 4e 41 50 50 59 00 | version i32 = 1 | compatible i32 = 1 | (length i32 | raw block)*
            blocks contain 32 KiB of input; librdkafka writes one raw block without framing, which is read as well
    lz4     frame format (KIP-57)
    zstd    frames

A few bytes can decompress to gigabytes: 1.3 KB of zstd to 40 MB. So every caller states how much it accepts, and no
buffer becomes larger than that; or it takes the output in pieces, whatever the whole is.
"""

from __future__ import annotations

import importlib
import struct
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

import cramjam

Buffer = bytes | memoryview


class Codec(IntEnum):
    """Bits 0-2 of a batch's attributes; the names are the values of compression.type."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionError(Exception):
    """The data is invalid for its codec."""


class OutputTooLargeError(Exception):
    """The data decompresses to more bytes than the caller accepts."""


XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC = XERIAL_HEADER[:8]
_BLOCK_LENGTH = struct.Struct(">i")

_GZIP_FORMAT = 16 + zlib.MAX_WBITS  # with RFC 1952 header and trailer, which zlib checks

_FIRST_BUFFER = 16 * 1024
_FIRST_RATIO = 8
"""The first buffer for lz4 and zstd, whose frames need not say their size: most batches compress less than this."""

_BUFFER_GROWTH = 4
"""If the output does not fit, decompression starts again with a buffer this many times as large: the repeated attempts
together cost a third of the last one."""

_BUFFER_IS_FULL = "failed to write whole buffer"  # cramjam's text, from Rust's std::io::ErrorKind::WriteZero


def decompress(codec: int, data: Buffer, limit: int) -> bytes:
    """Return the decompressed records of a batch, at most ``limit`` bytes.

    Raises DecompressionError if ``data`` is invalid for the codec, and OutputTooLargeError beyond the limit.
    """
    try:
        return _DECOMPRESS[codec](data, limit)
    except KeyError:
        raise DecompressionError(f"unknown codec {codec}") from None
    except (EOFError, zlib.error, struct.error, cramjam.DecompressionError) as error:
        name = Codec(codec).name.lower()
        raise DecompressionError(f"records cannot be decompressed as {name}: {error}") from error


def decompressed(codec: int, data: Buffer, piece_bytes: int, whole_bytes: int) -> Iterator[Buffer]:
    """Yield the decompressed records of a batch in pieces of at most ``piece_bytes``, without holding the others.

    Besides a piece, the decompressor holds what the codec refers back to: up to 128 MiB of zstd, the largest window
    that its decoders accept by default, and a block of 4 MiB of lz4. A block of snappy is a piece, whatever its size.
    cramjam has no streams, so lz4 and zstd need pyarrow. Without it they are decompressed as a whole, if that is at
    most ``whole_bytes``.

    Raises DecompressionError if ``data`` is invalid for the codec, also after some pieces, and OutputTooLargeError.
    """
    try:
        match codec:
            case Codec.NONE:
                yield from _slices(data, piece_bytes)
            case Codec.GZIP:
                yield from _gzip_pieces(data, piece_bytes)
            case Codec.SNAPPY:
                yield from _snappy_pieces(data, whole_bytes)
            case Codec.LZ4 | Codec.ZSTD:
                yield from _frame_pieces(Codec(codec), data, piece_bytes, whole_bytes)
            case _:
                raise DecompressionError(f"unknown codec {codec}")
    except (EOFError, OSError, zlib.error, struct.error, cramjam.DecompressionError) as error:
        name = Codec(codec).name.lower()
        raise DecompressionError(f"records cannot be decompressed as {name}: {error}") from error


def _slices(data: Buffer, size: int) -> Iterator[memoryview]:
    view = memoryview(data)
    for at in range(0, len(view), size):
        yield view[at : at + size]


def _gzip_pieces(data: Buffer, size: int) -> Iterator[bytes]:
    rest: Buffer = data
    while rest:
        member = zlib.decompressobj(_GZIP_FORMAT)
        while not member.eof:
            piece = member.decompress(rest, size)
            rest = member.unconsumed_tail
            if not piece and not member.eof and not rest:
                raise EOFError("incomplete gzip member")
            yield piece
        rest = member.unused_data.lstrip(b"\x00")  # members may be padded


def _snappy_pieces(data: Buffer, limit: int) -> Iterator[bytes]:
    if bytes(data[:8]) != _XERIAL_MAGIC:
        yield _snappy_block(data, data, limit, 0)
        return
    for block in _snappy_blocks(data):
        yield _snappy_block(block, data, limit, 0)


def _frame_pieces(codec: Codec, data: Buffer, size: int, whole_bytes: int) -> Iterator[bytes]:
    try:
        arrow: Any = importlib.import_module("pyarrow")
    except ImportError:
        yield decompress(codec, data, whole_bytes)
        return
    if not len(data):
        raise EOFError("empty input")
    stream = arrow.CompressedInputStream(arrow.BufferReader(data), codec.name.lower())
    while piece := stream.read(size):
        yield piece


def _none(data: Buffer, limit: int) -> bytes:
    _check(len(data), Codec.NONE, data, limit)
    return bytes(data)


def _gzip(data: Buffer, limit: int) -> bytes:
    parts: list[bytes] = []
    room = limit
    rest: Buffer = data
    while rest:
        member = zlib.decompressobj(_GZIP_FORMAT)
        part = member.decompress(rest, room + 1)
        _check(limit - room + len(part), Codec.GZIP, data, limit)
        if not member.eof:
            raise EOFError("incomplete gzip member")
        room -= len(part)
        parts.append(part)
        rest = member.unused_data.lstrip(b"\x00")  # members may be padded
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy(data: Buffer, limit: int) -> bytes:
    if bytes(data[:8]) != _XERIAL_MAGIC:
        return _snappy_block(data, data, limit, 0)
    blocks: list[bytes] = []
    size = 0
    for block in _snappy_blocks(data):
        blocks.append(_snappy_block(block, data, limit, size))
        size += len(blocks[-1])
    return b"".join(blocks)


def _snappy_blocks(data: Buffer) -> Iterator[memoryview]:
    view = memoryview(data)
    at = len(XERIAL_HEADER)
    while at < len(view):
        (length,) = _BLOCK_LENGTH.unpack_from(view, at)
        at += _BLOCK_LENGTH.size
        if not 0 < length <= len(view) - at:
            raise EOFError(f"invalid block length {length}")
        yield view[at : at + length]
        at += length


def _snappy_block(block: Buffer, data: Buffer, limit: int, before: int) -> bytes:
    # a block states its size, and a false one is an error
    _check(before + cramjam.snappy.decompress_raw_len(block), Codec.SNAPPY, data, limit)
    return bytes(cramjam.snappy.decompress_raw(block))


def _lz4(data: Buffer, limit: int) -> bytes:
    return _frames(Codec.LZ4, cramjam.lz4.decompress_into, data, limit)


def _zstd(data: Buffer, limit: int) -> bytes:
    return _frames(Codec.ZSTD, cramjam.zstd.decompress_into, data, limit)


def _frames(codec: Codec, decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, limit: int) -> bytes:
    size = min(limit, max(_FIRST_BUFFER, _FIRST_RATIO * len(data)))
    while True:
        out = bytearray(size)
        try:
            written = decompress_into(data, out)
        except cramjam.DecompressionError as error:
            if _BUFFER_IS_FULL not in str(error):
                raise
            _check(size + 1, codec, data, limit)
            size = min(limit, size * _BUFFER_GROWTH)
        else:
            return bytes(memoryview(out)[:written])


def _check(size: int, codec: Codec, data: Buffer, limit: int) -> None:
    if size > limit:
        raise OutputTooLargeError(
            f"{len(data)} bytes ({codec.name.lower()}) decompress to more than the limit of {limit} bytes"
        )


_DECOMPRESS: dict[int, Callable[[Buffer, int], bytes]] = {
    Codec.NONE: _none,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
