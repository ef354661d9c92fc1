"""Messages of the formats before Kafka 0.11, from planted bytes to records of a batch for the target."""

from __future__ import annotations

import struct
from collections import Counter, deque

import pytest

from flows.batch.blob import batches
from flows.batch.choice import BatchRules, Reason, reason_for
from flows.batch.header import BatchTooLargeError, CorruptBatchError
from flows.batch.old_formats import GROUP_BYTES, convert, xxh32
from flows.batch.pack import pack, repack
from flows.batch.steps import finish
from flows.batch.target_batch import NOT_IDEMPOTENT, SourceBatch, TargetBatch
from flows.source.completed_fetch import read_completed_fetch
from mm2.kafka.decompression import Codec
from mm2.kafka.protocol.fetch_request import FetchedPartition
from tests.lab.batches import Batch, Record, read
from tests.lab.old_formats import APPEND_TIME, GZIP, LZ4, SNAPPY, compressed, message, wrapper

ARRIVED = 1_700_000_000.0
NOW = int(ARRIVED * 1000)
CODECS = [GZIP, SNAPPY, LZ4]


def fetch(*blobs: bytes, wanted: int = 0, check_crcs: bool = True) -> deque[SourceBatch]:
    fetched = FetchedPartition("t", 0, 0, 100, 100, 0, (), -1, b"".join(blobs))
    found = read_completed_fetch(fetched, wanted, check_crcs=check_crcs, arrived=ARRIVED)
    assert found.error is None
    return deque(found.batches)


def packed(
    *blobs: bytes, wanted: int = 0, rules: BatchRules | None = None, limit: int | None = None, check_crcs: bool = True
) -> list[TargetBatch]:
    queue = fetch(*blobs, wanted=wanted, check_crcs=check_crcs)
    rules = rules or BatchRules(check_crcs=check_crcs)
    made: list[TargetBatch] = []
    while queue:
        made += finish(pack(queue, wanted, rules, limit, Counter())).batches
    return made


def records(made: list[TargetBatch]) -> list[Record]:
    """Return the records with their source offsets."""
    found = []
    for batch in made:
        batch.stamp(NOT_IDEMPOTENT)
        decoded = read(b"".join(bytes(piece) for piece in batch.wire()))
        assert len(decoded) == batch.count
        found += [one._replace(offset=batch.source_offset(index)) for index, one in enumerate(decoded)]
    return found


@pytest.mark.parametrize("magic", [0, 1])
def test_uncompressed_messages(magic: int) -> None:
    contents = [(3, b"k", b"v"), (4, None, b"v"), (5, b"k", None), (6, b"", b""), (9, None, None)]
    blob = b"".join(message(o, k, v, magic=magic, timestamp=1_000 + o) for o, k, v in contents)
    (batch,) = packed(blob, wanted=3)
    assert records([batch]) == [Record(o, 1_000 + o if magic else NOW, k, v) for o, k, v in contents]
    assert (batch.next_offset, batch.source_bytes, batch.runs) == (10, len(blob), ((3, 4), (9, 1)))
    (source,) = fetch(blob)
    assert reason_for(source.header, 3, BatchRules(), None) is Reason.OLD_FORMAT


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_compressed_messages(magic: int, codec: int) -> None:
    """Offsets inside are absolute in magic 0, and relative in magic 1; compaction has removed some."""
    inside = b"".join(
        message(o - (40 if magic else 0), b"k%d" % o, b"v" * 300, magic=magic, timestamp=o) for o in (41, 42, 45)
    )
    (batch,) = packed(wrapper(inside, codec, magic=magic, offset=45, timestamp=45), wanted=40)
    assert records([batch]) == [Record(o, o if magic else NOW, b"k%d" % o, b"v" * 300) for o in (41, 42, 45)]
    assert (batch.codec, batch.next_offset, batch.runs) == (codec, 46, ((41, 2), (45, 1)))


def test_append_time_of_a_wrapper_applies_to_all() -> None:
    inside = message(0, None, b"a", magic=1, timestamp=5) + message(1, None, b"b", magic=1, timestamp=6)
    made = packed(wrapper(inside, GZIP, magic=1, offset=8, timestamp=77, attributes=APPEND_TIME), wanted=7)
    assert [(one.offset, one.timestamp) for one in records(made)] == [(7, 77), (8, 77)]
    alone = packed(message(0, None, b"a", magic=1, timestamp=5, attributes=APPEND_TIME))
    assert [one.timestamp for one in records(alone)] == [5]


def test_messages_without_timestamp_get_the_time_of_their_arrival() -> None:
    """As Java: Connect passes no timestamp to the producer, which takes the current time."""
    inside = message(0, None, b"a", magic=0) + message(1, None, b"b", magic=1, timestamp=-1)
    blobs = message(0, None, b"c", magic=1), wrapper(inside, GZIP, magic=1, offset=2, timestamp=3)
    assert [one.timestamp for one in records(packed(*blobs))] == [NOW] * 3


def test_old_and_new_formats_in_one_response() -> None:
    new = Batch(records=[Record(3, 30, b"k", b"new")]).encode()
    inside = message(0, None, b"x", magic=1, timestamp=10) + message(1, None, b"y", magic=1, timestamp=20)
    blobs = message(0, None, b"w", magic=0), wrapper(inside, SNAPPY, magic=1, offset=2, timestamp=20), new
    assert [one.header.magic for one in fetch(blobs[0], Batch(records=[Record(1, 0, None, b"v")]).encode())] == [0, 2]
    counts: Counter[Reason] = Counter()
    queue = fetch(*blobs)
    made = finish(pack(queue, 0, BatchRules(), None, counts)).batches
    assert [(one.offset, one.value) for one in records(made)] == [(0, b"w"), (1, b"x"), (2, b"y"), (3, b"new")]
    assert counts == {Reason.OLD_FORMAT: 2, Reason.TINY: 1}
    assert made[0].next_offset == 4


def test_a_start_within_a_wrapper() -> None:
    inside = b"".join(message(o, None, b"%d" % o, magic=1, timestamp=o) for o in range(10))
    made = packed(wrapper(inside, GZIP, magic=1, offset=19, timestamp=9), wanted=14)
    assert [one.offset for one in records(made)] == [14, 15, 16, 17, 18, 19]


def test_a_wrapper_is_split_at_the_limit_of_the_target_and_repeated_with_the_same_ends() -> None:
    inside = b"".join(message(o, None, bytes([o]) * 500, magic=1, timestamp=o) for o in range(10))
    blob = wrapper(inside, GZIP, magic=1, offset=19, timestamp=9)
    rules = BatchRules(codec=Codec.NONE)
    parts = packed(blob, wanted=10, rules=rules, limit=1_700)
    assert [part.count for part in parts] == [3, 3, 3, 1]
    assert [one.offset for one in records(parts)] == list(range(10, 20))
    queue = fetch(blob, wanted=10)
    repeated = [finish(repack(queue, wanted, wanted + 3, rules, Counter())).batches for wanted in (10, 13)]
    assert [[one.offset for one in records(made)] for made in repeated] == [[10, 11, 12], [13, 14, 15]]
    assert len(queue) == 1, "it continues after the boundary"


def test_uncompressed_messages_are_read_in_groups() -> None:
    one = message(0, None, bytes(1_000), magic=1)
    blobs = [message(number, None, bytes(1_000), magic=1, timestamp=number) for number in range(200)]
    groups = fetch(*blobs)
    assert [group.header.record_count for group in groups][:3] == [GROUP_BYTES // len(one)] * 3
    assert sum(group.header.record_count for group in groups) == 200
    assert [group.header.max_timestamp for group in groups][-1] == 199
    large = fetch(message(0, None, bytes(2 * GROUP_BYTES), magic=1), message(1, None, b"v", magic=1))
    assert [group.header.size > GROUP_BYTES for group in large] == [True, False]
    mixed = fetch(message(0, None, b"v", magic=0), message(1, None, b"v", magic=1), message(2, None, b"v", magic=1))
    assert [(group.header.magic, group.header.record_count) for group in mixed] == [(0, 1), (1, 2)]


@pytest.mark.parametrize("magic", [0, 1])
def test_the_last_message_may_be_cut_off(magic: int) -> None:
    whole = message(0, b"k", b"v", magic=magic) + message(1, b"k", b"v", magic=magic)
    size = len(whole) // 2
    for cut in range(1, size):
        (group,) = fetch(whole[:-cut])
        assert group.next_offset == 1
    fetched = FetchedPartition("t", 0, 0, 100, 100, 0, (), -1, whole[: size - 1])
    assert read_completed_fetch(fetched, 0, check_crcs=True, arrived=0.0).error is not None


@pytest.mark.parametrize("magic", [0, 1])
def test_crcs(magic: int) -> None:
    damaged = bytearray(message(0, b"k", b"v", magic=magic) + message(1, b"k", b"v", magic=magic))
    damaged[-1] ^= 1
    found = batches(bytes(damaged), check_crcs=True)
    assert next(found)[0].next_offset == 1
    with pytest.raises(CorruptBatchError, match=r"message at offset 1: CRC mismatch \(\d+ bytes\)"):
        next(found)
    ((header, _),) = batches(bytes(damaged), check_crcs=False)
    assert header.record_count == 2
    inside = bytearray(message(0, b"k", b"v", magic=magic))
    inside[-1] ^= 1
    blob = wrapper(bytes(inside), GZIP, magic=magic, offset=0)
    with pytest.raises(CorruptBatchError, match="message at offset 0: CRC mismatch"):
        packed(blob)
    assert len(records(packed(blob, check_crcs=False))) == 1


def test_an_invalid_length() -> None:
    damaged = bytearray(message(7, b"k", b"v", magic=1))
    damaged[8:12] = (21).to_bytes(4, "big")
    with pytest.raises(CorruptBatchError, match="message at offset 7: invalid length 21"):
        list(batches(bytes(damaged), check_crcs=True))


INNER = message(0, None, b"a", magic=1) + message(1, None, b"b", magic=1)


@pytest.mark.parametrize(
    ("blob", "error"),
    [
        (message(9, None, None, magic=1, attributes=GZIP), "it is compressed, and its value is null"),
        (message(9, None, b"not gzip", magic=1, attributes=GZIP), "cannot be decompressed as gzip"),
        (message(9, None, b"\x00", magic=0, attributes=LZ4), "cannot be decompressed as lz4"),
        (message(9, None, b"v", magic=1, attributes=4), "format v1 has no codec 4"),
        (message(9, None, b"v", magic=1, attributes=7), "unknown codec 7"),
        (wrapper(b"", GZIP, magic=1, offset=9), "it is compressed, and empty"),
        (wrapper(INNER[:-1], GZIP, magic=1, offset=9), "it ends within a message"),
        (wrapper(INNER + bytes(30), GZIP, magic=1, offset=9), "invalid length 0"),
        (wrapper(INNER + INNER, GZIP, magic=1, offset=9), "it contains offset 8 after 9"),
        (wrapper(message(10, None, b"v", magic=0), GZIP, magic=0, offset=9), "it contains offset 10 after -1"),
        (wrapper(INNER, GZIP, magic=1, offset=0), "it contains offset -1 after -1"),
        (
            wrapper(wrapper(INNER, GZIP, magic=1, offset=1), GZIP, magic=1, offset=9),
            "it contains a compressed message",
        ),
    ],
    ids=[
        *("null-value", "gzip", "lz4", "zstd", "codec", "empty", "cut-off", "length", "twice", "after", "before"),
        "wrapper-in-wrapper",
    ],
)
def test_invalid_wrappers(blob: bytes, error: str) -> None:
    with pytest.raises(CorruptBatchError, match=rf"at offset (0|9): .*{error}"):
        packed(blob)


@pytest.mark.parametrize("lengths", [(-1, 2), (-1, 0), (3, -1), (40, -1)])
def test_key_and_value_must_fill_the_message(lengths: tuple[int, int]) -> None:
    raw = bytearray(message(5, None, b"v", magic=0))
    struct.pack_into(">ii", raw, 18, *lengths)
    with pytest.raises(CorruptBatchError, match="message at offset 5: key and value do not fill it"):
        packed(bytes(raw), check_crcs=False)


def test_a_wrapper_that_decompresses_to_too_much() -> None:
    inside = message(0, None, bytes(1_000_000), magic=1)
    blob = wrapper(inside, GZIP, magic=1, offset=9)
    with pytest.raises(BatchTooLargeError, match="batch at offset 9 is too large to rebuild"):
        packed(blob, rules=BatchRules(max_uncompressed=500_000))
    ((header, data),) = batches(blob, check_crcs=True)
    assert convert(header, data, limit=len(inside), check_crcs=True, now_ms=0)[0].record_count == 1


def test_header_checksum_of_a_frame_with_its_content_size() -> None:
    """An optional field of the frame, which is between flags and checksum."""
    inside = message(0, None, b"v" * 100, magic=0)
    plain = compressed(inside, LZ4, magic=1)
    fields = bytes((plain[4] | 8, plain[5])) + struct.pack("<Q", len(inside))
    for wrong in (0x55, 0xAA):
        frame = plain[:4] + fields + bytes((wrong,)) + plain[7:]
        (one,) = records(packed(message(0, None, frame, magic=0, attributes=LZ4)))
        assert one.value == b"v" * 100


@pytest.mark.parametrize(
    ("data", "digest"),
    [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF), (b"abcd", 0xA3643705)],
)
def test_published_hashes(data: bytes, digest: int) -> None:
    assert xxh32(data) == digest


def test_offsets_that_are_too_far_apart_for_one_batch() -> None:
    near, far = (message(offset, b"k", b"v", magic=0) for offset in (10, 10 + 2**31))
    assert [header.record_count for header, _ in batches(near + far, check_crcs=True)] == [1, 1]
    whole = wrapper(near + far, GZIP, magic=0, offset=10 + 2**31)
    ((header, data),) = batches(whole, check_crcs=True, start=10)
    with pytest.raises(CorruptBatchError, match="contains offset 10, too far from its own"):
        convert(header, data, limit=1_000, check_crcs=True, now_ms=0)
