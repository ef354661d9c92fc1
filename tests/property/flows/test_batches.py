"""Whichever path a batch takes, a consumer receives the same records. The oracle is aiokafka's decoder."""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from flows.batch.blob import batches
from flows.batch.choice import BatchRules, Reason
from flows.batch.header import HEADER_BYTES, BatchTooLargeError
from flows.batch.pack import pack, split
from flows.batch.steps import finish
from flows.batch.target_batch import ProducerId, SourceBatch, TargetBatch
from mm2.kafka.decompression import Codec, decompress
from tests.lab.batches import HEADER, LOG_APPEND_TIME, Batch, Record, read
from tests.property.flows.shapes import any_log

PRODUCER = ProducerId(4711, 3)
seeds = st.integers(0, 2**32 - 1)


def queue_of(log: list[Batch]) -> deque[SourceBatch]:
    blob = b"".join(batch.encode() for batch in log)
    return deque(
        SourceBatch(header, data, header.next_offset, header.size, 0.0)
        for header, data in batches(blob, check_crcs=True)
    )


def seen_by_consumer(outgoing: list[TargetBatch]) -> list[Record]:
    """Return what a consumer of the target receives, with the source offset instead of the target offset."""
    records: list[Record] = []
    for batch in outgoing:
        batch.sequence = 0
        batch.stamp(PRODUCER)
        raw = b"".join(batch.wire())
        base_offset, _, leader_epoch, magic, _, attributes, last_delta, *_, count = HEADER.unpack_from(raw)
        assert (base_offset, leader_epoch, magic, last_delta + 1) == (0, -1, 2, count)
        assert attributes & ~0x07 == 0
        decoded = read(raw)
        assert [record.offset for record in decoded] == list(range(count))
        assert batch.first_offset == batch.source_offset(0)
        assert batch.last_offset == batch.source_offset(count - 1)
        records += [record._replace(offset=batch.source_offset(record.offset)) for record in decoded]
    return records


def any_rules(rng: random.Random) -> BatchRules:
    return BatchRules(
        codec=rng.choice([None, *Codec]),
        tiny_bytes=rng.choice([0, 300, 100_000]),
        merged_bytes=rng.choice([61, 1_000, 100_000]),
    )


@given(seed=seeds)
def test_packing_keeps_every_record_from_the_requested_offset(seed: int) -> None:
    rng = random.Random(seed)
    log = any_log(rng, max_batches=8, max_records=12)
    rules, limit = any_rules(rng), rng.choice([None, rng.randint(100, 5_000)])
    source = [record for batch in log for record in read(batch.encode())]
    wanted = rng.randint(source[0].offset - 1, source[-1].offset + 1)
    queue = queue_of(log)
    held = sum(batch.held_bytes for batch in queue)
    end = queue[-1].next_offset
    counts: Counter[Reason] = Counter()
    outgoing: list[TargetBatch] = []
    dropped = 0
    while queue:
        packed = finish(pack(queue, wanted, rules, limit, counts))
        outgoing += packed.batches
        if not packed.batches:
            dropped += sum(batch.held_bytes for batch in packed.taken)
    assert seen_by_consumer(outgoing) == [record for record in source if record.offset >= wanted]
    assert sum(batch.held_bytes for batch in outgoing) + dropped == held
    assert counts.total() == len(log)
    if outgoing:
        assert outgoing[-1].next_offset <= end
        assert [batch.next_offset for batch in outgoing] == sorted(batch.next_offset for batch in outgoing)
    if limit is not None:
        assert all(batch.size <= limit or batch.count == 1 for batch in outgoing)


@given(seed=seeds)
def test_only_batches_that_must_be_rebuilt_can_be_too_large(seed: int) -> None:
    rng = random.Random(seed)
    log = any_log(rng, max_batches=8, max_records=12)
    rules, limit = any_rules(rng), rng.choice([None, rng.randint(100, 5_000)])
    rules = replace(rules, max_uncompressed=rng.randint(1, 3_000))
    queue = queue_of(log)
    kept: list[Record] = []
    outgoing: list[TargetBatch] = []
    while queue:
        first, before = queue[0], len(queue)
        try:
            packed = finish(pack(queue, 0, rules, limit, Counter()))
        except BatchTooLargeError:
            assert len(queue) == before
            assert first.header.has_holes or first.header.attributes & LOG_APPEND_TIME
            assert len(decompress(first.header.codec, first.data[HEADER_BYTES:], 1 << 30)) > rules.max_uncompressed
            queue.popleft()
        else:
            kept += [record for source in packed.taken for record in read(bytes(source.data))]
            outgoing += packed.batches
    assert seen_by_consumer(outgoing) == kept


@given(seed=seeds)
def test_splitting_keeps_records_and_their_source_offsets(seed: int) -> None:
    rng = random.Random(seed)
    log = any_log(rng, max_batches=1, max_records=40)
    (whole,) = finish(pack(queue_of(log), 0, BatchRules(), None, Counter())).batches
    expected = seen_by_consumer([whole])
    parts = finish(split(whole, rng.randint(62, 4_000), BatchRules()))
    assert seen_by_consumer(parts) == expected
    assert parts[-1].next_offset == whole.next_offset
    assert sum(part.held_bytes for part in parts) == whole.held_bytes
    assert sum(part.source_bytes for part in parts) == whole.source_bytes
