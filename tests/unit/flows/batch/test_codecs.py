from __future__ import annotations

import aiokafka.codec
import pytest

from flows.batch.codecs import codec_named, compress, records_of
from flows.batch.header import BatchTooLargeError, CorruptBatchError
from mm2.kafka.decompression import Codec, decompress

SAMPLES = [b"", b"a", b"abc" * 30_000, bytes(range(256)) * 400]
COMPRESSING = [codec for codec in Codec if codec]
LIMIT = 1_000_000


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_encode_and_decode(codec: Codec, data: bytes) -> None:
    packed = compress(codec, None, data)
    assert decompress(codec, packed, LIMIT) == data
    assert decompress(codec, memoryview(bytes(packed)), LIMIT) == data


@pytest.mark.parametrize("codec", COMPRESSING)
def test_aiokafka_reads_ours_and_we_read_aiokafkas(codec: Codec) -> None:
    name = codec.name.lower()
    for data in SAMPLES[1:]:
        assert getattr(aiokafka.codec, f"{name}_decode")(compress(codec, None, data)) == data
        assert decompress(codec, getattr(aiokafka.codec, f"{name}_encode")(data), LIMIT) == data


def test_snappy_without_framing_as_librdkafka_writes_it() -> None:
    raw = aiokafka.codec.snappy_encode(b"abc" * 1000, xerial_compatible=False)
    assert decompress(Codec.SNAPPY, bytes(raw), LIMIT) == b"abc" * 1000


def test_framings_required_by_java() -> None:
    snappy = bytes(compress(Codec.SNAPPY, None, b"x" * 40_000))
    assert snappy[:16] == bytes.fromhex("82534e4150505900 00000001 00000001")
    first = int.from_bytes(snappy[16:20], "big")
    assert len(snappy) > 20 + first + 4, "a block holds 32 KiB"
    lz4 = bytes(compress(Codec.LZ4, None, b"x" * 100))
    assert lz4[:4] == bytes.fromhex("04224d18")
    version, independent, content_checksum = lz4[4] >> 6, lz4[4] >> 5 & 1, lz4[4] >> 2 & 1
    assert (version, independent, content_checksum) == (1, 1, 0)
    assert bytes(compress(Codec.GZIP, None, b"x"))[4:8] == bytes(4), "no time: the same bytes each time"


@pytest.mark.parametrize(("codec", "levels"), [(Codec.GZIP, [1, 9]), (Codec.LZ4, [1, 9, 17]), (Codec.ZSTD, [-7, 22])])
def test_levels_of_kip_390(codec: Codec, levels: list[int]) -> None:
    data = b"".join(b"%d " % (number * number % 1009) for number in range(20_000))
    sizes = {level: len(compress(codec, level, data)) for level in levels}
    for level in levels:
        assert decompress(codec, compress(codec, level, data), LIMIT) == data
    assert sizes[levels[0]] >= sizes[levels[-1]]
    if codec is Codec.LZ4:
        assert sizes[9] == len(compress(codec, None, data)), "Java's level 9, the default, is its fast compressor"


def test_errors_have_the_offset() -> None:
    packed = bytes(compress(Codec.ZSTD, None, bytes(100_000)))
    assert records_of(7, Codec.ZSTD, packed, 100_000) == bytes(100_000)
    with pytest.raises(CorruptBatchError, match="batch at offset 7: records cannot be decompressed as zstd: "):
        records_of(7, Codec.ZSTD, packed[:-1], 100_000)
    too_large = r"batch at offset 7 is too large to rebuild: \d\d bytes \(zstd\) decompress to more than .* 99999 bytes"
    with pytest.raises(BatchTooLargeError, match=too_large):
        records_of(7, Codec.ZSTD, packed, 99_999)


def test_names() -> None:
    assert [codec_named(codec.name.lower()) for codec in Codec] == list(Codec)
    with pytest.raises(KeyError):
        codec_named("brotli")
