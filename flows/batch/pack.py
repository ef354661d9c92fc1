"""From fetched batches to batches for the target: one passed through, several merged, one split."""

from __future__ import annotations

from collections import Counter, deque
from itertools import takewhile
from typing import NamedTuple

from flows.batch.choice import BatchRules, Reason, is_tiny, merge_limit, merged_codec, reason_for
from flows.batch.codecs import compress, decompress
from flows.batch.header import CODEC_MASK, HEADER_BYTES, BatchHeader
from flows.batch.outgoing import Outgoing, Runs, SourceBatch, pass_through
from flows.batch.records import END, RecordPart, RecordRewriter


class Packed(NamedTuple):
    """What ``pack`` made of the source batches it took: mostly one batch. More if it had to be split to stay within the
    target's limit, none if all records lie before the offset wanted."""

    batches: list[Outgoing]
    taken: list[SourceBatch]


def pack(
    queue: deque[SourceBatch], wanted: int, rules: BatchRules, limit: int | None, counts: Counter[Reason]
) -> Packed:
    """Take what goes into the next batch off the front of ``queue``, which is not empty.

    ``counts`` gets one for each source batch. Raises CorruptBatchError; the queue is unchanged then.
    """
    first = queue[0]
    reason = reason_for(first.header, wanted, rules, limit)
    run = [first]
    if len(queue) > 1 and is_tiny(first.header, rules):
        run = _run(queue, rules, merge_limit(rules, limit))
    if len(run) == 1 and reason is Reason.PASS_THROUGH:
        packed = [pass_through(first)]
    elif len(run) == 1 and reason is Reason.CODEC:
        packed = [_recoded(first, rules)]
    elif reason is Reason.TOO_LARGE:
        packed = [pass_through(first)]
    else:
        packed = _rebuilt(run, wanted, rules)
    if limit is not None:
        packed = [part for batch in packed for part in split(batch, limit, rules.level)]
    for source in run:
        queue.popleft()
        alone = reason_for(source.header, wanted, rules, limit)
        counts[alone if alone or len(run) == 1 else Reason.TINY] += 1
    return Packed(packed, run)


def repack(queue: deque[SourceBatch], wanted: int, cut: int, rules: BatchRules, counts: Counter[Reason]) -> Packed:
    """Pack once more the batch that ended before source offset ``cut`` when it was packed first.

    The target may have it: a broker knows it again by the number of its records, so it must hold the same ones.
    Whatever the rules would merge or split today, it is all from ``wanted`` up to the cut. A source batch that goes on
    behind the cut stays in the queue. Raises CorruptBatchError; the queue is unchanged then.
    """
    run = list(takewhile(lambda source: source.header.base_offset < cut, queue))
    taken = [source for source in run if source.header.next_offset <= cut]
    reasons = [reason_for(source.header, wanted, rules, None) for source in run]
    if len(taken) == 1 and reasons == [Reason.PASS_THROUGH]:
        batches = [pass_through(run[0])]
    else:
        batches = _rebuilt(run, wanted, rules, cut) if run else []
        reasons = [reason or Reason.TINY for reason in reasons]
        for batch in batches:
            batch.held = sum(source.held for source in taken)
            batch.until = max([cut, *(source.until for source in taken)])
    for _ in taken:
        queue.popleft()
    counts.update(reasons)
    return Packed(batches, taken)


def _run(queue: deque[SourceBatch], rules: BatchRules, room: int) -> list[SourceBatch]:
    """The first batch, which is tiny, and those after it that are too, as long as there is room."""
    run: list[SourceBatch] = []
    for source in queue:
        room -= source.header.size
        if run and (room < 0 or not is_tiny(source.header, rules)):
            break
        run.append(source)
    return run


def _recoded(source: SourceBatch, rules: BatchRules) -> Outgoing:
    batch = pass_through(source)
    assert rules.codec is not None
    batch.records = bytes(compress(rules.codec, rules.level, decompress(batch.codec, batch.records)))
    batch.attributes = rules.codec
    return batch


def _rebuilt(run: list[SourceBatch], wanted: int, rules: BatchRules, before: int = END) -> list[Outgoing]:
    rewriter = RecordRewriter()
    for source in run:
        header = source.header
        rewriter.add(header, decompress(header.codec, source.data[HEADER_BYTES:]), wanted, before)
    codec = merged_codec((source.header.codec for source in run), rules)
    return [
        _outgoing(
            part,
            codec,
            rules.level,
            runs=part.runs,
            until=run[-1].until,
            held=sum(source.held for source in run),
            source_bytes=sum(source.header.size for source in run),
        )
        for part in rewriter.parts()
    ]


def split(batch: Outgoing, limit: int, level: int | None) -> list[Outgoing]:
    """The batch in parts of at most ``limit`` bytes, a record too large for that alone in its part.

    ``until`` and ``held`` go with the last part. A stamped batch's parts have to be stamped anew.
    """
    if batch.size <= limit or batch.count == 1:
        return [batch]
    records = decompress(batch.codec, batch.records)
    header = _header(batch)
    part_bytes = max(1, (limit - HEADER_BYTES) * len(records) // max(1, len(batch.records)))
    while True:
        rewriter = RecordRewriter(part_bytes)
        rewriter.add(header, records, 0)
        parts = rewriter.parts()
        outgoing = [_outgoing(part, batch.codec, level, runs=(), until=-1, held=0, source_bytes=0) for part in parts]
        if all(part.size <= limit or part.count == 1 for part in outgoing):
            break
        part_bytes //= 2  # the parts compress worse than the whole
    index = 0
    for part in outgoing:
        part.runs = _slice(batch.runs, index, part.count)
        part.until = part.last_offset + 1
        index += part.count
    last = outgoing[-1]
    last.until, last.held, last.source_bytes = batch.until, batch.held, batch.source_bytes
    return outgoing


def _outgoing(
    part: RecordPart, codec: int, level: int | None, *, runs: Runs, until: int, held: int, source_bytes: int
) -> Outgoing:
    return Outgoing(
        attributes=codec & CODEC_MASK,
        base_timestamp=part.base_timestamp,
        max_timestamp=part.max_timestamp,
        count=part.count,
        records=bytes(compress(codec, level, part.records)),
        runs=runs,
        until=until,
        held=held,
        source_bytes=source_bytes,
    )


def _header(batch: Outgoing) -> BatchHeader:
    """A header that describes the batch to the rewriter, its offsets counted from 0."""
    return BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=batch.attributes,
        last_offset_delta=batch.count - 1,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=batch.count,
    )


def _slice(runs: Runs, index: int, count: int) -> Runs:
    """The runs of ``count`` records from ``index`` on."""
    out: list[tuple[int, int]] = []
    for first, length in runs:
        skip = min(index, length)
        index -= skip
        take = min(count, length - skip)
        if take > 0:
            out.append((first + skip, take))
            count -= take
    return tuple(out)
