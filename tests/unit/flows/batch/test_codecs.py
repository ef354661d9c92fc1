from __future__ import annotations

import aiokafka.codec
import pytest

from flows.batch.codecs import Codec, codec_named, compress, decompress
from flows.batch.header import CorruptBatchError

SAMPLES = [b"", b"a", b"abc" * 30_000, bytes(range(256)) * 400]
COMPRESSING = [codec for codec in Codec if codec]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_there_and_back(codec: Codec, data: bytes) -> None:
    packed = compress(codec, None, data)
    assert decompress(codec, packed) == data
    assert decompress(codec, memoryview(bytes(packed))) == data


@pytest.mark.parametrize("codec", COMPRESSING)
def test_aiokafka_reads_ours_and_we_read_aiokafkas(codec: Codec) -> None:
    name = codec.name.lower()
    for data in SAMPLES[1:]:
        assert getattr(aiokafka.codec, f"{name}_decode")(compress(codec, None, data)) == data
        assert decompress(codec, getattr(aiokafka.codec, f"{name}_encode")(data)) == data


def test_snappy_without_framing_as_librdkafka_writes_it() -> None:
    raw = aiokafka.codec.snappy_encode(b"abc" * 1000, xerial_compatible=False)
    assert decompress(Codec.SNAPPY, bytes(raw)) == b"abc" * 1000


def test_framings_java_insists_on() -> None:
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
        assert decompress(codec, compress(codec, level, data)) == data
    assert sizes[levels[0]] >= sizes[levels[-1]]
    if codec is Codec.LZ4:
        assert sizes[9] == len(compress(codec, None, data)), "Java's level 9, the default, is its fast compressor"


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("damage", [lambda raw: b"not compressed at all", lambda raw: raw[:-5]], ids=["other", "cut"])
def test_damaged_data_is_told(codec: Codec, damage: object) -> None:
    assert callable(damage)
    with pytest.raises(CorruptBatchError, match=f"cannot be decompressed as {codec.name.lower()}: "):
        decompress(codec, damage(bytes(compress(codec, None, b"some records " * 100))))


def test_names() -> None:
    assert [codec_named(codec.name.lower()) for codec in Codec] == list(Codec)
    with pytest.raises(KeyError):
        codec_named("brotli")
    with pytest.raises(CorruptBatchError, match="codec 7 is not known"):
        decompress(7, b"x")
