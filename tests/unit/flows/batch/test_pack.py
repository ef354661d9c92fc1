from __future__ import annotations

from collections import Counter, deque

import pytest

from flows.batch.choice import BatchRules, Reason, for_long_link, rules_from
from flows.batch.codecs import Codec
from flows.batch.header import HEADER_BYTES, CorruptBatchError, batches
from flows.batch.outgoing import SourceBatch
from flows.batch.pack import Packed, pack
from mm2.core.client_settings import ProduceSettings
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
    return pack(queue, wanted, rules, limit, counts), dict(counts), len(queue)


def test_one_batch_passes_through_untouched() -> None:
    result, counts, left = packed(batch_at(5, codec=Codec.GZIP, count=20, value_bytes=50))
    (batch,) = result.batches
    assert isinstance(batch.records, memoryview)
    assert (batch.runs, batch.until) == (((5, 20),), 25)
    assert (counts, left) == ({Reason.PASS_THROUGH: 1}, 0)


def test_a_tiny_batch_alone_passes_through_because_waiting_would_delay_it() -> None:
    _, counts, _ = packed(batch_at(5))
    assert counts == {Reason.PASS_THROUGH: 1}


def test_tiny_batches_are_merged_up_to_the_room_there_is() -> None:
    log = [batch_at(number) for number in range(40)]
    size = len(log[0].encode())
    result, counts, left = packed(*log)
    (batch,) = result.batches
    merged = 1_000 // size
    assert (batch.count, left) == (merged, 40 - merged)
    assert counts == {Reason.TINY: merged}
    assert batch.held == merged * size


@pytest.mark.parametrize("large", [batch_at(1, value_bytes=300), batch_at(1, count=4, value_bytes=1)])
def test_a_batch_that_is_not_tiny_ends_the_run(large: Batch) -> None:
    _, counts, left = packed(batch_at(0), large, batch_at(9))
    assert (counts, left) == ({Reason.PASS_THROUGH: 1}, 2)
    _, counts, left = packed(large, batch_at(9))
    assert (counts, left) == ({Reason.PASS_THROUGH: 1}, 1)


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


def test_another_codec_is_asked_for() -> None:
    rules = BatchRules(codec=Codec.GZIP)
    result, counts, _ = packed(batch_at(0, count=20), rules=rules)
    assert counts == {Reason.CODEC: 1}
    assert result.batches[0].codec == Codec.GZIP
    result, counts, _ = packed(batch_at(0, count=20, codec=Codec.GZIP), rules=rules)
    assert counts == {Reason.PASS_THROUGH: 1}


def test_a_batch_whose_records_all_lie_before_the_start_gives_nothing() -> None:
    batch = Batch(records=[Record(3, 0, b"", b"")], next_offset=9)
    result, _, left = packed(batch, wanted=5)
    assert (result.batches, [source.until for source in result.taken], left) == ([], [9], 0)


def test_damaged_records_leave_the_queue_as_it_was() -> None:
    queue = queue_of(batch_at(0, attributes=LOG_APPEND_TIME), batch_at(1))
    damaged = bytearray(queue[0].data)
    damaged[HEADER_BYTES] = 0x55
    queue[0].data = memoryview(bytes(damaged))
    with pytest.raises(CorruptBatchError):
        pack(queue, 0, RULES, None, Counter())
    assert len(queue) == 2


def test_rules_of_settings() -> None:
    assert rules_from(ProduceSettings()).codec is None
    recoding = rules_from(ProduceSettings(compression_type="zstd", compression_level=7))
    assert (recoding.codec, recoding.level) == (Codec.ZSTD, 7)
    assert rules_from(ProduceSettings(batch_size=500_000)).merged_bytes == 500_000
    assert rules_from(ProduceSettings(batch_size=500_000, max_request_size=300_000)).merged_bytes == 300_000


def test_over_a_long_link_more_is_merged() -> None:
    log = [batch_at(number * 100, count=100, value_bytes=500) for number in range(8)]
    assert packed(*log, rules=BatchRules())[2] == 7
    assert packed(*log, rules=for_long_link(BatchRules()))[2] == 0
