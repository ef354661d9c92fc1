"""Whatever way a batch goes, a consumer sees the same records. The oracle is aiokafka's decoder."""

from __future__ import annotations

import random
from collections import Counter, deque

from hypothesis import given
from hypothesis import strategies as st

from flows.batch.choice import BatchRules, Reason
from flows.batch.codecs import Codec
from flows.batch.header import batches
from flows.batch.outgoing import Outgoing, ProducerId, SourceBatch
from flows.batch.pack import pack, split
from tests.lab.batches import HEADER, Batch, Record, read
from tests.property.flows.shapes import any_log

PRODUCER = ProducerId(4711, 3)
seeds = st.integers(0, 2**32 - 1)


def queue_of(log: list[Batch]) -> deque[SourceBatch]:
    blob = b"".join(batch.encode() for batch in log)
    return deque(
        SourceBatch(header, data, header.next_offset, header.size, 0.0)
        for header, data in batches(blob, check_crcs=True)
    )


def seen_by_consumer(outgoing: list[Outgoing]) -> list[Record]:
    """What a consumer of the target reads, with the source offset in place of the target's."""
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
def test_packing_keeps_every_record_from_the_wanted_offset_on(seed: int) -> None:
    rng = random.Random(seed)
    log = any_log(rng, max_batches=8, max_records=12)
    rules, limit = any_rules(rng), rng.choice([None, rng.randint(100, 5_000)])
    source = [record for batch in log for record in read(batch.encode())]
    wanted = rng.randint(source[0].offset - 1, source[-1].offset + 1)
    queue = queue_of(log)
    held = sum(batch.held for batch in queue)
    end = queue[-1].until
    counts: Counter[Reason] = Counter()
    outgoing: list[Outgoing] = []
    dropped = 0
    while queue:
        packed = pack(queue, wanted, rules, limit, counts)
        outgoing += packed.batches
        if not packed.batches:
            dropped += sum(batch.held for batch in packed.taken)
    assert seen_by_consumer(outgoing) == [record for record in source if record.offset >= wanted]
    assert sum(batch.held for batch in outgoing) + dropped == held
    assert counts.total() == len(log)
    if outgoing:
        assert outgoing[-1].until <= end
        assert [batch.until for batch in outgoing] == sorted(batch.until for batch in outgoing)
    if limit is not None:
        assert all(batch.size <= limit or batch.count == 1 for batch in outgoing)


@given(seed=seeds)
def test_splitting_keeps_records_and_whose_they_are(seed: int) -> None:
    rng = random.Random(seed)
    log = any_log(rng, max_batches=1, max_records=40)
    (whole,) = pack(queue_of(log), 0, BatchRules(), None, Counter()).batches
    expected = seen_by_consumer([whole])
    parts = split(whole, rng.randint(62, 4_000), None)
    assert seen_by_consumer(parts) == expected
    assert parts[-1].until == whole.until
    assert sum(part.held for part in parts) == whole.held
    assert sum(part.source_bytes for part in parts) == whole.source_bytes
