"""Model of a query: its decisions depend only on the record, and the program's own code makes rows and batches."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any
from zlib import crc32

import pyarrow as pa

from flows.batch.choice import BatchRules, new_codec
from flows.batch.record_reader import DecodedRecord
from flows.partition.frames_in_query import FrameInQuery, FrameResult
from flows.partition.rejection import of_query
from flows.partition.replicator import PartitionReplicator
from flows.sql.frames import Frame
from flows.sql.rows import ERROR, FAILED, OFFSET, RESULT, SCHEMA, rows_of
from flows.sql.written import FrameRows, RowColumns
from tests.lab.batches import Headers, Record

_PER_CENT = 100
_RESULT = pa.schema([pa.field(FAILED, pa.bool_()) if name == FAILED else SCHEMA.field(name) for name in RESULT])


class ModelQuery:
    """Implements `flows.partition.frame_transform.FrameTransform`: frames pass through when the test says so.

    It drops and changes records, and fails for some, by their keys; `dropped` and `failing` are shares in per cent. It
    returns a frame in parts, which end after any record that it keeps.
    """

    def __init__(self, rng: random.Random, *, failing: int = 0, rules: BatchRules | None = None) -> None:
        self._seed = rng.randrange(2**32)
        self.dropped = rng.choice([0, 30, 99, 100])
        self.failing = failing
        self.frames: deque[tuple[PartitionReplicator, FrameInQuery]] = deque()
        self._rules = rules or BatchRules()
        self._cuts = random.Random(self._seed)
        self._cut = self._cuts.choice([0.0, 0.1, 0.5])  # the share of records after which a part ends
        self._parts: Iterator[FrameResult] = iter(())
        self._parts_of: FrameInQuery | None = None

    # -- the query

    def fails(self, key: bytes | None) -> bool:
        return crc32(b"fails" + (key or b""), self._seed) % _PER_CENT < self.failing

    def _result(self, record: Record) -> Record | None:
        chance = crc32(record.key or b"", self._seed)
        if chance % _PER_CENT < self.dropped:
            return None
        value = record.value or b""
        changes: list[tuple[bytes | None, Headers]] = [
            (value, ()),
            (None, (("twice", b"1"), ("twice", None))),
            (b"", (("", b""),)),
            (value * 3, ()),
        ]
        changed, headers = changes[chance // _PER_CENT % len(changes)]
        return record._replace(value=changed, headers=headers, timestamp=record.timestamp + chance % 3)

    def results(self, records: Sequence[Record]) -> list[Record]:
        """Return what has to be copied of these records."""
        found = [self._result(record) for record in records if not self.fails(record.key)]
        return [record for record in found if record is not None]

    # -- RowTransform

    writes_itself = False

    async def remove(self, partition: Any) -> None:
        """Nothing is kept of it."""

    def submit(self, partition: Any, frame: FrameInQuery) -> None:
        self.frames.append((partition, frame))

    def complete_oldest(self, now: float) -> None:
        """The oldest frame, or its next part, has passed through."""
        partition, frame = self.frames[0]
        if self._parts_of is not frame:
            self._parts_of, self._parts = frame, self._transformed(partition, frame)
        result = next(self._parts)
        if not result.is_part:
            self.frames.popleft()
        partition.transformed(frame.number, result, now)

    def _transformed(self, partition: PartitionReplicator, frame: FrameInQuery) -> Iterator[FrameResult]:
        blob = b"".join(batch.data for batch in frame.batches)
        rows, content = FrameRows(), {}
        codec = new_codec((one.header.codec for one in frame.batches), self._rules)
        sent = Frame(frame.number, frame.start, "t", 0, blob, self._rules.max_uncompressed)
        for batch in rows_of(sent):
            if (error := batch.column(ERROR)[batch.num_rows - 1].as_py()) is not None:
                yield FrameResult(unreadable=error)
                return
            decoded_rows = batch.slice(0, batch.num_rows - batch.column(OFFSET).null_count)
            if not decoded_rows.num_rows:
                continue
            columns = dict(zip(batch.schema.names, decoded_rows.columns, strict=True))
            read = [
                Record(offset, timestamp // 1_000, key, value, tuple((one["key"], one["value"]) for one in headers))
                for offset, timestamp, key, value, headers in zip(
                    columns[OFFSET].to_pylist(),
                    columns["timestamp"].cast(pa.int64()).to_pylist(),
                    columns["key"].to_pylist(),
                    columns["value"].to_pylist(),
                    columns["headers"].to_pylist(),
                    strict=True,
                )
            ]
            content.update({record.offset: record for record in read})
            result = RowColumns(self._rows(read))
            for at in range(len(result.offsets)):
                rows.add(result, at, at + 1)
                if rows.taken and self._cuts.random() < self._cut:
                    yield FrameResult(rows.batch(codec, None), is_part=True)
                    rows.clear()
        written = rows.batch(codec, None)
        failed = rows.failed
        if failed is None:
            yield FrameResult(written)
            return
        record = content[failed.offset]
        decoded = DecodedRecord(timestamp_ms=record.timestamp, key=record.key, value=record.value, headers=())
        rejection = of_query(
            partition.source, partition.target, failed.offset, query="q", why="ArithmeticException", record=decoded
        )
        yield FrameResult(written, rejection)

    def _rows(self, records: Sequence[Record]) -> pa.RecordBatch:
        out: list[tuple[object, ...]] = []
        for record in records:
            if self.fails(record.key):
                out.append((None, None, None, None, True, record.offset, 0, None))
            elif (changed := self._result(record)) is not None:
                out.append(
                    (
                        changed.key,
                        changed.value,
                        changed.timestamp * 1_000,
                        list(changed.headers) or None,
                        False,
                        record.offset,
                        0,
                        None,
                    )
                )
        columns = zip(*out, strict=True) if out else [()] * len(_RESULT)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _RESULT, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_RESULT)
