from __future__ import annotations

from collections import Counter, deque

import pytest

from flows.batch.blob import batches
from flows.batch.choice import MAX_UNCOMPRESSED, BatchRules, Reason, for_long_link, rules_from
from flows.batch.header import HEADER_BYTES, BatchTooLargeError, CorruptBatchError
from flows.batch.pack import Packed, pack, repack, split
from flows.batch.steps import finish
from flows.batch.target_batch import SourceBatch
from mm2.core.settings.client import FetchSettings, ProduceSettings
from mm2.kafka.decompression import Codec
from tests.lab.batches import LOG_APPEND_TIME, Batch, Record

RULES = BatchRules(tiny_bytes=200, tiny_records=3, merged_bytes=1_000)


def queue_of(*log: Batch) -> deque[SourceBatch]:
    blob = b"".join(batch.encode() for batch in log)
    return deque(
        SourceBatch(header, data, header.next_offset, header.size, 0.0)
        for header, data in batches(blob, check_crcs=True)
    )


def batch_at(offset: int, count: int = 1, value_bytes: int = 10, **changes: object) -> Batch:
    records = [Record(offset + number, 1_000, b"k", b"v" * value_bytes) for number in range(count)]
    return Batch(records=records, **changes)  # type: ignore[arg-type]


def packed(
    *log: Batch, wanted: int = 0, rules: BatchRules = RULES, limit: int | None = None
) -> tuple[Packed, dict[Reason, int], int]:
    queue = queue_of(*log)
    counts: Counter[Reason] = Counter()
    return finish(pack(queue, wanted, rules, limit, counts)), dict(counts), len(queue)


def test_one_batch_passes_through_untouched() -> None:
    result, counts, left = packed(batch_at(5, codec=Codec.GZIP, count=20, value_bytes=50))
    (batch,) = result.batches
    assert isinstance(batch.records, memoryview)
    assert (batch.runs, batch.next_offset) == (((5, 20),), 25)
    assert (counts, left) == ({Reason.PASS_THROUGH: 1}, 0)


def test_a_tiny_batch_alone_passes_through_because_waiting_would_delay_it() -> None:
    _, counts, _ = packed(batch_at(5))
    assert counts == {Reason.PASS_THROUGH: 1}


def test_tiny_batches_are_merged_up_to_the_limit() -> None:
    log = [batch_at(number) for number in range(40)]
    size = len(log[0].encode())
    result, counts, left = packed(*log)
    (batch,) = result.batches
    merged = 1_000 // size
    assert (batch.count, left) == (merged, 40 - merged)
    assert counts == {Reason.TINY: merged}
    assert batch.held_bytes == merged * size


@pytest.mark.parametrize("large", [batch_at(1, value_bytes=300), batch_at(1, count=4, value_bytes=1)])
def test_a_batch_that_is_not_tiny_ends_the_run(large: Batch) -> None:
    _, counts, left = packed(batch_at(0), large, batch_at(9))
    assert (counts, left) == ({Reason.PASS_THROUGH: 1}, 2)
    _, counts, left = packed(large, batch_at(9))
    assert (counts, left) == ({Reason.PASS_THROUGH: 1}, 1)


def test_tiny_batches_are_merged_up_to_a_number_of_records() -> None:
    """Over a long link many small records fit into a batch: merging them takes 3 microseconds for each."""
    log = [batch_at(number * 4_000, 4_000, value_bytes=0, codec=Codec.GZIP) for number in range(4)]
    result, _, left = packed(*log, rules=for_long_link(BatchRules()))
    assert ([batch.count for batch in result.batches], left) == ([8_000], 2)


def test_the_merged_codec_is_the_first_that_compresses() -> None:
    plain, snappy = batch_at(0), batch_at(1, codec=Codec.SNAPPY, value_bytes=120)
    for log in ([plain, snappy], [snappy, batch_at(2)]):
        (batch,) = packed(*log)[0].batches
        assert batch.codec == Codec.SNAPPY
    (batch,) = packed(plain, snappy, rules=BatchRules(codec=Codec.ZSTD))[0].batches
    assert batch.codec == Codec.ZSTD


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (batch_at(7, count=3, attributes=LOG_APPEND_TIME, max_timestamp=5), Reason.LOG_APPEND_TIME),
        (batch_at(2, count=9), Reason.BEFORE_START),
        (Batch(records=[Record(7, 0, b"", b""), Record(9, 0, b"", b"")]), Reason.HOLES),
        (Batch(records=[Record(7, 0, b"", b"")], next_offset=9), Reason.HOLES),
        (batch_at(7, count=50), Reason.TOO_LARGE),
        (batch_at(7, count=5), Reason.PASS_THROUGH),
    ],
)
def test_reasons(batch: Batch, reason: Reason) -> None:
    _, counts, _ = packed(batch, wanted=7, limit=500)
    assert counts == {reason: 1}


def test_another_codec_is_required() -> None:
    rules = BatchRules(codec=Codec.GZIP)
    result, counts, _ = packed(batch_at(0, count=20), rules=rules)
    assert counts == {Reason.CODEC: 1}
    assert result.batches[0].codec == Codec.GZIP
    result, counts, _ = packed(batch_at(0, count=20, codec=Codec.GZIP), rules=rules)
    assert counts == {Reason.PASS_THROUGH: 1}


def test_a_batch_entirely_before_the_start_is_omitted() -> None:
    batch = Batch(records=[Record(3, 0, b"", b"")], next_offset=9)
    result, _, left = packed(batch, wanted=5)
    assert (result.batches, [source.next_offset for source in result.taken], left) == ([], [9], 0)


def test_damaged_records_leave_the_queue_as_it_was() -> None:
    queue = queue_of(batch_at(0, attributes=LOG_APPEND_TIME), batch_at(1))
    damaged = bytearray(queue[0].data)
    damaged[HEADER_BYTES] = 0x55
    queue[0].data = memoryview(bytes(damaged))
    with pytest.raises(CorruptBatchError):
        finish(pack(queue, 0, RULES, None, Counter()))
    assert len(queue) == 2


def test_rules_of_settings() -> None:
    assert rules_from(ProduceSettings(), FetchSettings()).codec is None
    recoding = rules_from(ProduceSettings(compression_type="zstd", compression_level=7), FetchSettings())
    assert (recoding.codec, recoding.level) == (Codec.ZSTD, 7)
    assert rules_from(ProduceSettings(batch_size=500_000), FetchSettings()).merged_bytes == 500_000
    small = rules_from(ProduceSettings(batch_size=500_000, max_request_size=300_000), FetchSettings())
    assert (small.merged_bytes, small.max_uncompressed) == (300_000, MAX_UNCOMPRESSED)
    large = rules_from(ProduceSettings(max_request_size=20_000_000), FetchSettings(max_partition_bytes=30_000_000))
    assert large.max_uncompressed == 30_000_000


def test_over_a_long_link_more_is_merged() -> None:
    log = [batch_at(number * 100, count=100, value_bytes=500) for number in range(8)]
    assert packed(*log, rules=BatchRules())[2] == 7
    assert packed(*log, rules=for_long_link(BatchRules()))[2] == 0


BOMB_BYTES = 40_000_000


def bomb_at(offset: int, *, value_bytes: int = BOMB_BYTES, **changes: object) -> Batch:
    """Return a batch whose value of zeros compresses to almost nothing."""
    record = Record(offset, 1_000, b"k", bytes(value_bytes))
    return Batch(records=[record], codec=Codec.ZSTD, **changes)  # type: ignore[arg-type]


def test_bombs_are_passed_through_instead_of_merged() -> None:
    queue = queue_of(bomb_at(0), bomb_at(1), batch_at(2), batch_at(3), bomb_at(4), batch_at(5))
    assert queue[0].header.size < 2_000
    counts: Counter[Reason] = Counter()
    runs: list[tuple[int, int]] = []
    while queue:
        (batch,) = finish(pack(queue, 0, BatchRules(), None, counts)).batches
        assert batch.size < 10_000
        runs += batch.runs
    assert runs == [(0, 1), (1, 1), (2, 2), (4, 1), (5, 1)]
    assert counts == {Reason.PASS_THROUGH: 4, Reason.TINY: 2}


@pytest.mark.parametrize("codec", [None, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_not_recoded(codec: Codec | None) -> None:
    result, counts, _ = packed(bomb_at(0), rules=BatchRules(codec=codec))
    (batch,) = result.batches
    assert (batch.codec, isinstance(batch.records, memoryview)) == (Codec.ZSTD, True)
    assert counts == {Reason.PASS_THROUGH: 1}


def test_a_bomb_is_not_split_unless_the_target_rejects_it() -> None:
    records = [Record(number, 1_000, b"k", bytes(BOMB_BYTES // 2)) for number in range(2)]
    bomb = Batch(records=records, codec=Codec.ZSTD)
    result, counts, _ = packed(bomb, rules=BatchRules(), limit=500)
    assert ([batch.count for batch in result.batches], counts) == ([2], {Reason.PASS_THROUGH: 1})
    with pytest.raises(BatchTooLargeError, match="batch at offset 0 is too large to rebuild"):
        finish(split(result.batches[0], 500, BatchRules()))


@pytest.mark.parametrize(
    "bomb",
    [
        bomb_at(7, attributes=LOG_APPEND_TIME, max_timestamp=5),
        bomb_at(7, base_offset=6),
        bomb_at(7, next_offset=9),
    ],
    ids=["log-append-time", "before-start", "holes"],
)
def test_a_bomb_that_must_be_rebuilt_is_an_error(bomb: Batch) -> None:
    queue = queue_of(bomb, batch_at(9))
    too_large = (
        rf"batch at offset {queue[0].header.base_offset} is too large to rebuild: \d+ bytes \(zstd\) decompress to"
    )
    with pytest.raises(BatchTooLargeError, match=too_large):
        finish(pack(queue, 7, BatchRules(), None, Counter()))
    with pytest.raises(BatchTooLargeError, match=too_large):
        finish(repack(queue, 7, 9, BatchRules(), Counter()))
    assert len(queue) == 2


def test_a_bomb_that_was_passed_through_is_packed_again_as_before() -> None:
    for rules in (BatchRules(), BatchRules(codec=Codec.LZ4)):
        queue = queue_of(bomb_at(0), batch_at(1))
        counts: Counter[Reason] = Counter()
        (batch,) = finish(repack(queue, 0, 1, rules, counts)).batches
        assert (batch.runs, batch.codec, counts) == (((0, 1),), Codec.ZSTD, {Reason.PASS_THROUGH: 1})


def test_a_batch_stored_in_more_than_the_limit_may_be_rebuilt() -> None:
    rules = BatchRules(max_uncompressed=1_000)
    result, counts, _ = packed(batch_at(0, value_bytes=5_000, next_offset=5), rules=rules)
    assert (len(result.batches), counts) == (1, {Reason.HOLES: 1})


def test_the_bytes_that_a_rebuilt_batch_gained() -> None:
    source = batch_at(0, count=1, value_bytes=50_000, codec=Codec.ZSTD)
    result, _, _ = packed(source, rules=BatchRules(codec=Codec.NONE))
    assert result.grown == result.batches[0].size - len(source.encode()) > 49_000
    assert packed(source)[0].grown == 0


def test_a_rebuilt_batch_can_be_split_though_its_records_gained_bytes() -> None:
    rules = BatchRules(max_uncompressed=1)
    source = batch_at(0, count=200, attributes=LOG_APPEND_TIME, max_timestamp=5)
    (rebuilt,) = packed(source, rules=rules)[0].batches
    assert sum(part.count for part in finish(split(rebuilt, 500, rules))) == 200
