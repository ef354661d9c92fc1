"""Decompression with a limit returns what decompression without one returns, or rejects it: below, at and above it."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import cramjam
from aiokafka.codec import snappy_decode
from hypothesis import given
from hypothesis import strategies as st

from flows.batch.codecs import compress
from mm2.kafka.decompression import Codec, OutputTooLargeError, decompress

UNLIMITED: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.NONE: bytes,
    Codec.GZIP: gzip.decompress,
    Codec.SNAPPY: snappy_decode,
    Codec.LZ4: lambda data: bytes(cramjam.lz4.decompress(data)),
    Codec.ZSTD: lambda data: bytes(cramjam.zstd.decompress(data)),
}
chunks = st.one_of(st.binary(max_size=300), st.builds(bytes, st.integers(0, 200_000)))
records = st.lists(chunks, max_size=5).map(b"".join)


@given(codec=st.sampled_from(Codec), data=records, framed=st.booleans(), room=st.integers(-300_000, 300_000))
def test_limited_and_unlimited_decompression_agree(codec: Codec, data: bytes, framed: bool, room: int) -> None:
    stored = bytes(compress(codec, None, data))
    if codec is Codec.SNAPPY and not (framed and data):  # aiokafka does not recognize a frame without blocks
        stored = bytes(cramjam.snappy.compress_raw(data))
    unlimited = UNLIMITED[codec](stored)
    assert unlimited == data
    limit = max(0, len(data) + room)
    try:
        limited = decompress(codec, stored, limit)
    except OutputTooLargeError:
        assert limit < len(unlimited)
    else:
        assert limited == unlimited
        assert len(unlimited) <= limit
