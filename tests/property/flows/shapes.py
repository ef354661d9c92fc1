"""Hypothesis strategies: records and batches of every shape a source can hold."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.lab.batches import DELETE_HORIZON, LOG_APPEND_TIME, Batch, Headers, Record

NOW = 1_700_000_000_000

small = st.binary(max_size=40)
nullable = st.none() | st.just(b"") | small | st.binary(min_size=100, max_size=3000)
timestamps = st.integers(NOW - 10_000_000_000, NOW + 10_000_000_000) | st.integers(NOW, NOW + 50) | st.just(-1)
names = st.text(max_size=12).filter(lambda text: text.isprintable() or not text)


@st.composite
def headers(draw: st.DrawFn) -> Headers:
    return tuple(draw(st.lists(st.tuples(names, st.none() | small), max_size=3)))


@st.composite
def stored_batches(draw: st.DrawFn, at: int = 0, *, max_records: int = 12) -> Batch:
    """One batch with records from offset ``at`` on: any codec, holes or none, append time or not."""
    base = at
    offset = base
    compacted = draw(st.booleans())
    records: list[Record] = []
    for _ in range(draw(st.integers(1, max_records))):
        if compacted:
            offset += draw(st.integers(0, 3))
        records.append(Record(offset, draw(timestamps), draw(nullable), draw(nullable), draw(headers())))
        offset += 1
    next_offset = offset + (draw(st.integers(0, 3)) if compacted else 0)
    attributes = draw(st.sampled_from([0, 0, LOG_APPEND_TIME, DELETE_HORIZON]))
    return Batch(
        records=records,
        codec=draw(st.integers(0, 4)),
        base_offset=base,
        next_offset=next_offset,
        attributes=attributes,
        max_timestamp=NOW + 7 if attributes & LOG_APPEND_TIME else None,
    )


@st.composite
def logs(draw: st.DrawFn, *, max_batches: int = 8, max_records: int = 12) -> list[Batch]:
    """Batches one after the other, with a gap here and there where whole batches were compacted away."""
    at = draw(st.integers(0, 1000))
    out: list[Batch] = []
    for _ in range(draw(st.integers(1, max_batches))):
        batch = draw(stored_batches(at, max_records=max_records))
        out.append(batch)
        assert batch.next_offset is not None
        at = batch.next_offset + draw(st.sampled_from([0, 0, 0, 5]))
    return out
