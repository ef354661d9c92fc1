"""Every codec, with a limit of the output. The oracle for valid data is aiokafka's codecs."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from collections.abc import Callable

import aiokafka.codec
import pytest

from mm2.kafka.decompression import Codec, DecompressionError, OutputTooLargeError, decompress

BOMB_BYTES = 40_000_000
LIMIT = 1_000_000


def packed(codec: Codec, data: bytes) -> bytes:
    if codec is Codec.NONE:
        return data
    return bytes(getattr(aiokafka.codec, f"{codec.name.lower()}_encode")(data))


def raw_snappy(data: bytes) -> bytes:
    return bytes(aiokafka.codec.snappy_encode(data, xerial_compatible=False))


WRITERS: list[tuple[str, Codec, Callable[[bytes], bytes]]] = [
    *((codec.name.lower(), codec, lambda data, codec=codec: packed(codec, data)) for codec in Codec),
    ("raw snappy", Codec.SNAPPY, raw_snappy),
    ("two gzip members", Codec.GZIP, lambda data: gzip.compress(data[:10]) + bytes(3) + gzip.compress(data[10:])),
    ("two zstd frames", Codec.ZSTD, lambda data: packed(Codec.ZSTD, data[:10]) + packed(Codec.ZSTD, data[10:])),
    ("two lz4 frames", Codec.LZ4, lambda data: packed(Codec.LZ4, data[:10]) + packed(Codec.LZ4, data[10:])),
]
each_writer = pytest.mark.parametrize(("codec", "write"), [pytest.param(*rest, id=name) for name, *rest in WRITERS])


@each_writer
@pytest.mark.parametrize("size", [1, 1_000, 200_000])
def test_the_limit_is_the_largest_size_accepted(codec: Codec, write: Callable[[bytes], bytes], size: int) -> None:
    data = (b"abc" * size)[:size]
    stored = write(data)
    assert decompress(codec, stored, size) == data
    assert decompress(codec, memoryview(stored), size + 1) == data
    with pytest.raises(OutputTooLargeError, match=rf"^{len(stored)} bytes .* the limit of {size - 1} bytes$"):
        decompress(codec, stored, size - 1)


@each_writer
def test_a_bomb_is_not_decompressed(codec: Codec, write: Callable[[bytes], bytes]) -> None:
    bomb = write(bytes(BOMB_BYTES))
    tracemalloc.start()
    try:
        with pytest.raises(OutputTooLargeError):
            decompress(codec, bomb, LIMIT)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * LIMIT


def test_a_false_size_of_a_snappy_block_is_not_allocated() -> None:
    four_gib = b"\xff\xff\xff\xff\x0f"
    for stored in (four_gib + b"abc", packed(Codec.SNAPPY, b"")[:16] + struct.pack(">i", 8) + four_gib + b"abc"):
        with pytest.raises(OutputTooLargeError):
            decompress(Codec.SNAPPY, stored, LIMIT)


@pytest.mark.parametrize("length", [-(2**31), -24, -1, 0, 9, 2**31 - 1])
def test_an_invalid_length_of_a_snappy_block(length: int) -> None:
    stored = bytearray(packed(Codec.SNAPPY, b"abc" * 1_000))
    stored[16:20] = struct.pack(">i", length)
    with pytest.raises(DecompressionError, match="cannot be decompressed as snappy: "):
        decompress(Codec.SNAPPY, bytes(stored), LIMIT)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
@pytest.mark.parametrize("damage", [lambda raw: b"not compressed at all", lambda raw: raw[:-5]], ids=["other", "cut"])
def test_damaged_data_is_an_error(codec: Codec, damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(DecompressionError, match=f"cannot be decompressed as {codec.name.lower()}: "):
        decompress(codec, damage(packed(codec, b"some records " * 100)), LIMIT)


def test_an_unknown_codec() -> None:
    with pytest.raises(DecompressionError, match="unknown codec 7"):
        decompress(7, b"x", LIMIT)
