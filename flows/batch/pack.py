"""Packing fetched batches into batches for the target: one passed through, several merged, one split."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from itertools import takewhile
from typing import NamedTuple

from flows.batch.choice import (
    COMMON_RATIO,
    MERGED_RECORDS,
    RECORD_GROWTH,
    UNLIMITED,
    BatchRules,
    Reason,
    is_tiny,
    merge_limit,
    new_codec,
    reason_for,
)
from flows.batch.codecs import compress, records_of
from flows.batch.header import CODEC_MASK, HEADER_BYTES, MAGIC, NO_PRODUCER, BatchHeader, BatchTooLargeError
from flows.batch.old_formats import converted
from flows.batch.record_reader import record_starts
from flows.batch.records import END, BatchRecords, RecordRewriter, with_holes
from flows.batch.steps import LIGHT_RECORDS, Steps
from flows.batch.target_batch import Runs, SourceBatch, TargetBatch, pass_through

_CONTIGUOUS = BatchHeader(0, 0, -1, MAGIC, 0, 0, 0, 0, 0, NO_PRODUCER, -1, -1, 0)
"""Offsets counted from 0, for records that are already in a batch for the target."""


class Uncompressed(NamedTuple):
    """The records of a source batch in format v2, and the header that describes them."""

    header: BatchHeader
    records: bytes


class Packed(NamedTuple):
    """The result of ``pack``: the new batches, and the source batches they replace.

    Usually one batch; more if it had to be split to stay within the target's limit, none if all records are before the
    offset wanted.
    """

    batches: list[TargetBatch]
    taken: list[SourceBatch]

    @property
    def grown(self) -> int:
        """Bytes by which the new batches exceed the source batches, if they were rebuilt."""
        if not self.batches or isinstance(self.batches[0].records, memoryview):
            return 0
        return sum(batch.size for batch in self.batches) - sum(source.header.size for source in self.taken)


def pack(
    queue: deque[SourceBatch], wanted: int, rules: BatchRules, limit: int | None, counts: Counter[Reason]
) -> Steps[Packed]:
    """Pack the next batch from the front of ``queue``, which is not empty, and remove its source batches.

    Until the last step, the queue may only be appended to. Each source batch is counted in ``counts``. A batch with too
    many uncompressed bytes is passed through, unless it must be rebuilt. Raises CorruptBatchError and
    BatchTooLargeError and leaves the queue unchanged.
    """
    first = queue[0]
    reason = _reason(first, wanted, rules, limit)
    run: list[SourceBatch] = [first]
    records: list[Uncompressed] = []
    if len(queue) > 1 and is_tiny(first.header, rules):
        run, records = yield from _mergeable(_run(queue, rules, merge_limit(rules, limit)), rules)
    if len(run) > 1 and reason is not Reason.TOO_LARGE:
        packed = yield from _rebuilt(run, records, wanted, rules)
        if limit is not None:
            packed = yield from _all_split(packed, limit, rules)
    else:
        run = [first]
        packed, reason = yield from _alone(first, reason, wanted, rules, limit)
    for source in run:
        queue.popleft()
        alone = reason if source is first else _reason(source, wanted, rules, limit)
        counts[alone if alone or len(run) == 1 else Reason.TINY] += 1
    return Packed(packed, run)


def _reason(source: SourceBatch, wanted: int, rules: BatchRules, limit: int | None) -> Reason:
    """Return why the batch cannot be passed through; what a query returned is contiguous already."""
    header = source.header
    if source.runs is not None:
        header = header._replace(last_offset_delta=header.record_count - 1)
    return reason_for(header, wanted, rules, limit)


def _alone(
    source: SourceBatch, reason: Reason, wanted: int, rules: BatchRules, limit: int | None
) -> Steps[tuple[list[TargetBatch], Reason]]:
    """Return the new batches for one source batch, and the reason that applied."""
    whole = pass_through(source)
    try:
        match reason:
            case Reason.PASS_THROUGH:
                return [whole], reason
            case Reason.TOO_LARGE:
                packed = [whole]
            case Reason.CODEC:
                packed = [_recoded(source, rules)]
            case _:
                records = yield from _uncompressed(source, rules)
                packed = yield from _rebuilt([source], [records], wanted, rules)
        if limit is not None:
            packed = yield from _all_split(packed, limit, rules)
    except BatchTooLargeError:
        if reason not in (Reason.CODEC, Reason.TOO_LARGE):
            raise
        return [whole], Reason.PASS_THROUGH  # the target may accept it, and its records are the same
    return packed, reason


def _all_split(batches: list[TargetBatch], limit: int, rules: BatchRules) -> Steps[list[TargetBatch]]:
    parts: list[TargetBatch] = []
    for batch in batches:
        parts += yield from split(batch, limit, rules)
    return parts


def is_heavy(
    queue: deque[SourceBatch], wanted: int, boundary: int | None, rules: BatchRules, limit: int | None
) -> bool:
    """Return whether packing the next batch with `pack`, or `repack`, can take longer than a few steps.

    The header of a wrapper in an old format does not tell how many messages it contains.
    """
    header = queue[0].header
    if boundary is None:
        if header.record_count <= LIGHT_RECORDS and (header.magic == MAGIC or not header.codec):
            return False  # and what is merged with it is light, too
        return _reason(queue[0], wanted, rules, limit) not in (Reason.PASS_THROUGH, Reason.CODEC)
    records = 0
    for source in takewhile(lambda source: source.header.base_offset < boundary, queue):
        if source.header.magic != MAGIC and source.header.codec:
            return True
        records += source.header.record_count
    return records > LIGHT_RECORDS


def repack(
    queue: deque[SourceBatch], wanted: int, boundary: int, rules: BatchRules, counts: Counter[Reason]
) -> Steps[Packed]:
    """Repeat the packing of a batch that ended before source offset ``boundary``.

    The target may have the batch, and recognizes it by its first sequence and number of records. So it must contain the
    same records: all from ``wanted`` up to the boundary, whatever the rules would merge or split now. A source batch
    that continues after the boundary stays in the queue. Until the last step, the queue may only be appended to. Raises
    CorruptBatchError and BatchTooLargeError and leaves the queue unchanged.
    """
    run = list(takewhile(lambda source: source.header.base_offset < boundary, queue))
    taken = [source for source in run if source.header.next_offset <= boundary]
    reasons = [_reason(source, wanted, rules, None) for source in run]
    if len(run) == len(taken) == 1:
        batches, reasons[0] = yield from _alone(run[0], reasons[0], wanted, rules, None)
    else:
        records: list[Uncompressed] = []
        for source in run:
            part = yield from _uncompressed(source, rules)
            records.append(part)
        batches = (yield from _rebuilt(run, records, wanted, rules, boundary)) if run else []
        reasons = [reason or Reason.TINY for reason in reasons]
    for batch in batches:
        batch.held_bytes = sum(source.held_bytes for source in taken)
        batch.next_offset = max([boundary, *(source.next_offset for source in taken)])
    for _ in taken:
        queue.popleft()
    counts.update(reasons)
    return Packed(batches, taken)


def _run(queue: deque[SourceBatch], rules: BatchRules, room: int) -> list[SourceBatch]:
    """Return the first batch, which is tiny, and the tiny batches that follow, up to ``room`` bytes and
    `MERGED_RECORDS`."""
    run: list[SourceBatch] = []
    records = 0
    for source in queue:
        room -= source.header.size + RECORD_GROWTH * source.header.record_count
        records += source.header.record_count
        if run and (room < 0 or records > MERGED_RECORDS or not is_tiny(source.header, rules)):
            break
        run.append(source)
    return run


def _mergeable(run: list[SourceBatch], rules: BatchRules) -> Steps[tuple[list[SourceBatch], list[Uncompressed]]]:
    """Return the first batches of ``run`` whose uncompressed records may be merged, and these records.

    They end before a batch that compresses much better than usual: it need not be decompressed to be copied.
    """
    room = min(COMMON_RATIO * rules.merged_bytes, rules.max_uncompressed)
    records: list[Uncompressed] = []
    for source in run:
        try:
            part = yield from _uncompressed(source, rules, room)
        except BatchTooLargeError:
            break
        records.append(part)
        room -= len(part.records)
    return run[: len(records)], records


def _uncompressed(source: SourceBatch, rules: BatchRules, limit: int | None = None) -> Steps[Uncompressed]:
    """Return the records of a batch that must be rebuilt, uncompressed, of at most ``limit`` bytes.

    Raises CorruptBatchError and BatchTooLargeError.
    """
    header = source.header
    if limit is None:
        limit = _limit(source, rules)
    if header.magic != MAGIC:
        now_ms = int(source.arrived * 1000)
        found = yield from converted(header, source.data, limit=limit, check_crcs=rules.check_crcs, now_ms=now_ms)
        return Uncompressed(*found)
    records = records_of(header.base_offset, header.codec, source.data[HEADER_BYTES:], limit)
    if source.runs is not None and len(source.runs) > 1:
        records = yield from with_holes(records, source.runs)
    yield
    return Uncompressed(header, records)


def _limit(source: SourceBatch, rules: BatchRules) -> int:
    """Return how many uncompressed bytes the records of the batch may have; what was written here is known to fit."""
    return max(rules.max_uncompressed, source.header.size) if source.runs is None else UNLIMITED


def _recoded(source: SourceBatch, rules: BatchRules) -> TargetBatch:
    batch = pass_through(source)
    records = records_of(source.header.base_offset, batch.codec, batch.records, _limit(source, rules))
    codec = new_codec([batch.codec], rules)
    batch.records = bytes(compress(codec, rules.level, records))
    batch.attributes = codec
    return batch


def _rebuilt(
    run: list[SourceBatch], records: list[Uncompressed], wanted: int, rules: BatchRules, before: int = END
) -> Steps[list[TargetBatch]]:
    rewriter = RecordRewriter()
    for one in records:
        yield from rewriter.add(one.header, one.records, wanted, before)
    codec = new_codec((source.header.codec for source in run), rules)
    return [
        _target_batch(
            part,
            codec,
            rules.level,
            next_offset=run[-1].next_offset,
            held_bytes=sum(source.held_bytes for source in run),
            source_bytes=sum(source.header.size for source in run),
        )
        for part in rewriter.parts()
    ]


def split(batch: TargetBatch, limit: int, rules: BatchRules) -> Steps[list[TargetBatch]]:
    """Split the batch into parts of at most ``limit`` bytes; a larger record gets a part of its own.

    The last part has the batch's ``next_offset`` and ``held_bytes``. Parts of a stamped batch have to be stamped again.
    Raises CorruptBatchError and BatchTooLargeError.
    """
    if batch.size <= limit or batch.count == 1:
        return [batch]
    records, header = uncompressed(batch, rules), _header(batch, batch.count)
    part_bytes = max(1, (limit - HEADER_BYTES) * len(records) // max(1, len(batch.records)))
    while True:
        rewriter = RecordRewriter(part_bytes)
        yield from rewriter.add(header, records, 0)
        parts: list[TargetBatch] = []
        for part in rewriter.parts():
            parts.append(_target_batch(part, batch.codec, rules.level))
            yield
        largest = max((part.size for part in parts if part.count > 1), default=0)
        if largest <= limit:
            break
        # the parts compress worse than the whole; those of the next attempt differ a little, too
        part_bytes = max(1, min(part_bytes * 15 // 16, part_bytes * limit // largest))
    return _with_origins(parts, batch)


def cut(batch: TargetBatch, indexes: Iterable[int], rules: BatchRules) -> Steps[list[TargetBatch]]:
    """Cut the batch before the records at ``indexes``, which are increasing and from 1 to the number of records - 1.

    Raises CorruptBatchError and BatchTooLargeError.
    """
    records = uncompressed(batch, rules)
    starts = yield from record_starts(records, batch.count, batch.first_offset)
    parts, first = [], 0
    for end in (*indexes, batch.count):
        rewriter = RecordRewriter()
        yield from rewriter.add(_header(batch, end - first), records[starts[first] : starts[end]], 0)
        parts += [_target_batch(part, batch.codec, rules.level) for part in rewriter.parts()]
        first = end
    return _with_origins(parts, batch)


def uncompressed(batch: TargetBatch, rules: BatchRules) -> bytes:
    """Return the uncompressed records of a batch for the target. Raises CorruptBatchError and BatchTooLargeError."""
    # what was built here was within the limit before, and records can have gained some bytes
    accepted = max(rules.max_uncompressed, batch.size) if isinstance(batch.records, memoryview) else UNLIMITED
    return records_of(batch.first_offset, batch.codec, batch.records, accepted)


def _header(batch: TargetBatch, count: int) -> BatchHeader:
    """Return the header of ``count`` contiguous records of the batch."""
    return _CONTIGUOUS._replace(
        attributes=batch.attributes,
        last_offset_delta=count - 1,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        record_count=count,
    )


def _with_origins(parts: list[TargetBatch], batch: TargetBatch) -> list[TargetBatch]:
    """Return the parts of a batch with the source offsets of their records; the last one holds the batch's bytes."""
    index = 0
    for part in parts:
        part.runs = _slice(batch.runs, index, part.count)
        part.next_offset = part.last_offset + 1
        index += part.count
    last = parts[-1]
    last.next_offset, last.held_bytes, last.source_bytes = batch.next_offset, batch.held_bytes, batch.source_bytes
    return parts


def _target_batch(
    part: BatchRecords,
    codec: int,
    level: int | None,
    *,
    next_offset: int = -1,
    held_bytes: int = 0,
    source_bytes: int = 0,
) -> TargetBatch:
    return TargetBatch(
        attributes=codec & CODEC_MASK,
        base_timestamp=part.base_timestamp,
        max_timestamp=part.max_timestamp,
        count=part.count,
        records=bytes(compress(codec, level, part.records)),
        runs=part.runs,
        next_offset=next_offset,
        held_bytes=held_bytes,
        source_bytes=source_bytes,
    )


def _slice(runs: Runs, index: int, count: int) -> Runs:
    """Return the runs of ``count`` records from ``index`` on."""
    out: list[tuple[int, int]] = []
    for first, length in runs:
        skip = min(index, length)
        index -= skip
        take = min(count, length - skip)
        if take > 0:
            out.append((first + skip, take))
            count -= take
    return tuple(out)
