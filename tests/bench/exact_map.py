"""Size of the exact offset map in its topic and in memory, and the time to read it and to look positions up.

``python -m tests.bench.exact_map [DAYS [SEGMENTS]]``: a partition with transactions is simulated for some days, and as
many copies of it are read as have so many segments together. Without a broker: what the fetches take comes on top.
"""

from __future__ import annotations

import gc
import random
import sys
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_journal import ExactOffsetJournal
from mm2.core.offsets.exact_offset_records import Segment, SegmentKey, TopicIds, decode_segment
from mm2.core.offsets.exact_offsets import ExactOffsets, Found
from mm2.core.offsets.segment_index import LoadedSegments, SegmentNotLoaded

COMMITS_A_SECOND = 10
DAY_S = 86_400
WRITTEN_EVERY = 1_000  # commits, in the simulation
LOOK_UPS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MapCost:
    """``record_bytes``: keys and values in the topic. ``index_bytes``: memory of the reader, without the newest
    segments of partitions. Seconds and microseconds are CPU time; a cold look-up decodes the segment and its pack."""

    commits: int
    segments: int
    record_bytes: int
    index_bytes: float
    read_us: float
    cold_us: float
    warm_us: float


def simulated(days: float, seed: int = 1) -> tuple[list[Segment], int]:
    """Return the segments of a partition that is copied in transactions, and the number of its commits.

    Each transaction has 80 to 120 records and a marker on the target, and there is a marker on the source after every
    50 records or so.
    """
    rng = random.Random(seed)
    journal = ExactOffsetJournal(TopicPartition("orders", 0), topic_ids=TopicIds(), in_transactions=True)
    written: dict[int, Segment] = {}
    commits = round(days * DAY_S * COMMITS_A_SECOND)
    upstream = downstream = 0
    for number in range(commits):
        since, runs, left = upstream, [], rng.randint(80, 120)
        while left:
            count = min(left, rng.randint(40, 60))
            runs.append((upstream, count))
            upstream, left = upstream + count + 1, left - count
        journal.acked(runs, downstream, since=since, until=upstream)
        downstream += sum(count for _, count in runs) + 1
        if number % WRITTEN_EVERY == WRITTEN_EVERY - 1:
            _write(journal, written)
    _write(journal, written)
    return list(written.values()), commits


def _write(journal: ExactOffsetJournal, written: dict[int, Segment]) -> None:
    for segment in journal.unwritten():
        written[segment.sequence] = segment
        journal.written(segment)


def measure(days: float, segments: int) -> MapCost:
    one, commits = simulated(days)
    values = [segment.value() for segment in one]
    sizes = [len(segment.key()) + len(value) for segment, value in zip(one, values, strict=True)]
    partitions = [TopicPartition("orders", number) for number in range(max(1, segments // len(one)))]
    count = len(partitions) * len(one)

    def records() -> Iterator[tuple[bytes, bytes, int]]:
        place = 0
        for partition in partitions:
            for segment, value in zip(one, values, strict=True):
                yield SegmentKey(partition, 0, segment.sequence).encode(), value, place
                place += 1

    gc.collect()
    tracemalloc.start()
    offsets = ExactOffsets(LoadedSegments(kept=64))
    for key, value, place in records():
        offsets.apply_record(key, value, place)
    gc.collect()
    index_bytes = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()
    del offsets
    offsets = ExactOffsets(LoadedSegments(kept=64))
    began = time.process_time()
    for key, value, place in records():
        offsets.apply_record(key, value, place)
    read = time.process_time() - began
    rng = random.Random(2)
    end = one[-1].head.upstream_end

    def look_up(partition: TopicPartition, upstream: int) -> None:
        while True:
            try:
                found = offsets.look_up(partition, upstream)
            except SegmentNotLoaded as missing:
                number = missing.place % len(one)
                key = SegmentKey(partition, 0, one[number].sequence).encode()
                offsets.put(partition, missing.place, decode_segment(key, values[number]))
                continue
            assert isinstance(found, Found)
            return

    positions = [(rng.choice(partitions), rng.randrange(end)) for _ in range(LOOK_UPS)]
    began = time.process_time()
    for partition, upstream in positions:
        look_up(partition, upstream)
    cold = time.process_time() - began
    began = time.process_time()
    for _ in range(LOOK_UPS):
        look_up(*positions[0])
    warm = time.process_time() - began
    return MapCost(
        commits=commits,
        segments=count,
        record_bytes=sum(sizes),
        index_bytes=index_bytes,
        read_us=1e6 * read / count,
        cold_us=1e6 * cold / LOOK_UPS,
        warm_us=1e6 * warm / LOOK_UPS,
    )


def main() -> None:
    days = float(sys.argv[1]) if len(sys.argv) > 1 else 7.0
    segments = int(sys.argv[2]) if len(sys.argv) > 2 else 200_000
    cost = measure(days, segments)
    per_partition = cost.record_bytes / 1e6
    print(f"one partition, {days:g} days, {cost.commits:,} commits: {per_partition:,.2f} MB in the topic")
    print(
        f"{cost.segments:,} segments read: {cost.index_bytes:,.1f} bytes of memory and {cost.read_us:,.1f} µs for each"
    )
    print(f"a look-up in a segment that is not in memory, without its fetch: {cost.cold_us:,.0f} µs")
    print(f"a look-up in a segment that is in memory: {cost.warm_us:,.1f} µs")


if __name__ == "__main__":
    main()
