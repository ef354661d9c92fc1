"""Cost of a checkpoint cycle over 100,000 group-partitions, in memory and without a broker."""

from __future__ import annotations

import gc
import itertools
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.checkpoints import Checkpoints, CommittedOffset, Emit
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import SEGMENT_RANGES, Segment, TopicIds
from mm2.core.offsets.exact_offsets import ExactOffsets
from mm2.core.offsets.offset_sync_store import OffsetSyncStore
from mm2.core.offsets.offset_translation import Translated, Translation
from mm2.core.offsets.segment_index import LoadedSegments
from mm2.core.policies import DefaultReplicationPolicy
from mm2.core.wire.formats import Checkpoint, OffsetSync
from mm2.kafka.protocol.group_offset_requests import MANY_GROUPS, OFFSET_FETCH, OffsetFetchRequest
from mm2.kafka.protocol.raw_request import DeferredResponse
from mm2.kafka.protocol.schema import INT16, INT32, INT64, STRING, Table, encoder
from tests.bench.results import TranslationCost
from tests.bench.screen import Screen

NAME = "translation"
TITLE = "a checkpoint cycle over 100,000 group-partitions"
AIM = "under one CPU-second"  # for translating all of them and deciding which checkpoints to write

FLOW = Flow("A", "B")
GROUPS = 1_000  # at scale 1
PARTITIONS = 100  # of each topic; a group reads one topic
TOPICS = 100
REPEATS = 3  # the best run counts: the difference to the others is caused by other programs
GROUPS_PER_RESPONSE = 100

WORLD_END = 1_000_000  # end offset of each source partition
COPIED_FROM = 500_000  # first source offset in the exact map
DROPPED = 7  # target offsets are smaller by this
STEP = 500  # records that a group reads between two cycles
HOLES_EVERY = 10  # one in this many partitions belongs to a compacted topic
HOLE_RANGES = 200  # number of ranges of such a partition
ALL = 1 << 30  # segments in memory
FULL_RANGES = 1_024  # number of ranges of a partition with 32 segments

_PARTITION: Table = {"partition": INT32, "offset": INT64, "epoch": INT32, "metadata": STRING, "error": INT16}
_TOPIC: Table = {"topic": STRING, "partitions": [_PARTITION]}
_RESPONSE: Table = {"throttle_ms": INT32, "groups": [{"group": STRING, "topics": [_TOPIC], "error": INT16}]}

Committed = Mapping[TopicPartition, CommittedOffset | None]
Translate = Callable[[TopicPartition, int], Translation]


class World:
    """Topics that have been copied for some time, and groups that read them.

    The offset sync store has 15 syncs per partition, less dense towards its start. Half of the groups are near the end
    of their topic, half anywhere in its last two thirds; the exact map covers three of four of these.
    """

    def __init__(self, groups: int, partitions: int = PARTITIONS) -> None:
        """``partitions``: number of each topic's partitions, and therefore of each group's."""
        self._numbers = range(partitions)
        self._random = random.Random(1)
        topics = [f"topic-{number}" for number in range(min(TOPICS, groups))]
        self.partitions = [TopicPartition(topic, number) for topic in topics for number in self._numbers]
        self.groups = {f"group-{number}": self._positions(topics[number % len(topics)]) for number in range(groups)}

    def syncs(self) -> OffsetSyncStore:
        store = OffsetSyncStore(must_read_to_end=False)
        for partition in self.partitions:
            for upstream in _sync_offsets():
                downstream = upstream - DROPPED
                store.apply(
                    OffsetSync(topic_partition=partition, upstream_offset=upstream, downstream_offset=downstream)
                )
        store.read_to_end()
        return store

    def exact(self, ranges: Callable[[int], int]) -> ExactOffsets:
        """Return the exact map with all segments in memory. ``ranges`` returns the number of ranges of a partition by
        its number."""
        offsets, places = ExactOffsets(LoadedSegments(kept=ALL)), itertools.count()
        for number, partition in enumerate(self.partitions):
            for segment in _segments(partition, ranges(number)):
                offsets.apply(segment, next(places))
        return offsets

    def read(self, ranges: Callable[[int], int]) -> ExactOffsets:
        """Return the exact map as it is read from its topic, with the newest segment of each partition in memory."""
        offsets, places = ExactOffsets(), itertools.count()
        for number, partition in enumerate(self.partitions):
            for segment in _segments(partition, ranges(number)):
                offsets.apply_record(segment.key(), segment.value(), next(places))
        return offsets

    def _positions(self, topic: str) -> Committed:
        spread = STEP if self._random.random() < 0.5 else 2 * WORLD_END // 3
        latest = WORLD_END - (REPEATS + 1) * STEP
        return {
            TopicPartition(topic, number): CommittedOffset(offset=latest - self._random.randrange(spread))
            for number in self._numbers
        }


def measure(scale: float, screen: Screen) -> TranslationCost:
    """Measure all figures, with ``scale`` times the number of groups."""
    world = World(max(1, round(GROUPS * scale)))
    with screen.phase(f"{NAME}: CPU", 4) as report_progress:
        syncs, exact = world.syncs(), world.exact(some_with_holes)
        report_progress(1)
        moved, unmoved = _cycles(world, lambda one, offset: exact.translate(one, offset, syncs.translate))
        report_progress(2)
        compatible, _ = _cycles(world, syncs.translate)
        report_progress(3)
        decoding, encoding = _best(lambda: _decode(world)), _encoding(world)
    few, full = World(2), World(1, partitions=5)
    with screen.phase(f"{NAME}: memory", 1):
        return TranslationCost(
            group_partitions=len(world.groups) * PARTITIONS,
            moved_cpu=moved,
            unmoved_cpu=unmoved,
            compatible_cpu=compatible,
            decoding_cpu=decoding,
            encoding_cpu=encoding,
            store_bytes=_bytes(few.syncs) / len(few.partitions),
            map_bytes=_bytes(lambda: few.read(one_range)) / len(few.partitions),
            full_map_bytes=_bytes(lambda: full.read(full_window)) / len(full.partitions),
            checkpoint_bytes=_bytes(lambda: _remembered(few)) / (len(few.groups) * PARTITIONS),
        )


def _cycles(world: World, translate: Translate) -> tuple[float, float]:
    """Return the CPU-seconds of a cycle in which every group has new offsets, and of one in which none has."""
    checkpoints = Checkpoints(aliases=FLOW, policy=DefaultReplicationPolicy(), selects=lambda topic: True)
    here = world.groups
    _cycle(checkpoints, here, translate)
    moved: list[float] = []
    for _ in range(REPEATS):
        here = {group: _moved(positions) for group, positions in here.items()}
        moved.append(_cpu(lambda now=here: _cycle(checkpoints, now, translate)))  # type: ignore[misc]
    return min(moved), _best(lambda: _cycle(checkpoints, here, translate))


def _cycle(checkpoints: Checkpoints, groups: Mapping[str, Committed], translate: Translate) -> None:
    for group, committed in groups.items():
        for outcome in checkpoints.judge(group, committed, translate).values():
            if isinstance(outcome, Emit):
                checkpoints.remember(outcome.checkpoint)


def _moved(positions: Committed) -> Committed:
    return {one: CommittedOffset(offset=at.offset + STEP) for one, at in positions.items() if at is not None}


def _decode(world: World) -> None:
    request = OffsetFetchRequest(list(world.groups)).prepare({OFFSET_FETCH: (MANY_GROUPS, MANY_GROUPS)})
    for response in _answers(world):
        found = request.decode(response)
        if isinstance(found, DeferredResponse):
            found.decode()


def _answers(world: World) -> Iterator[bytes]:
    """Yield the responses of coordinators to offset fetches of all groups, each with its header."""
    groups = list(world.groups.items())
    encode = encoder(_RESPONSE, MANY_GROUPS, flexible=True)
    for start in range(0, len(groups), GROUPS_PER_RESPONSE):
        rows: list[Any] = []
        for group, positions in groups[start : start + GROUPS_PER_RESPONSE]:
            offsets = [(one.partition, at.offset if at else -1, 0, "", 0) for one, at in positions.items()]
            rows.append((group, [(next(iter(positions)).topic, offsets)], 0))
        response = bytearray(5)
        encode(response, (0, rows))
        yield bytes(response)


def _encoding(world: World) -> float:
    checkpoints = [
        Checkpoint(group=group, topic_partition=one, upstream_offset=at.offset, downstream_offset=at.offset)
        for group, positions in world.groups.items()
        for one, at in positions.items()
        if at is not None
    ]
    return _best(lambda: [(checkpoint.key(), checkpoint.value()) for checkpoint in checkpoints])


def _remembered(world: World) -> Checkpoints:
    checkpoints = Checkpoints(aliases=FLOW, policy=DefaultReplicationPolicy(), selects=lambda topic: True)
    _cycle(checkpoints, world.groups, lambda one, offset: Translated(offset=offset - DROPPED, behind=0))
    return checkpoints


def one_range(number: int) -> int:
    return 1


def some_with_holes(number: int) -> int:
    return 1 if number % HOLES_EVERY else HOLE_RANGES


def full_window(number: int) -> int:
    return FULL_RANGES


def _sync_offsets() -> Iterator[int]:
    """Yield the last offset, and 14 before it at doubling distances."""
    yield from (WORLD_END - 2**power for power in range(19, 5, -1))
    yield WORLD_END - 1


def _segments(partition: TopicPartition, count: int) -> Iterator[Segment]:
    """Yield ``count`` ranges of equal length from COPIED_FROM to WORLD_END, separated by holes of one offset."""
    length = (WORLD_END - COPIED_FROM) // count
    reach, downstream = CopiedUpTo(), COPIED_FROM - DROPPED
    for sequence, first in enumerate(range(0, count, SEGMENT_RANGES)):
        before, ranges = reach, []
        for number in range(first, min(count, first + SEGMENT_RANGES)):
            hole = 1 if number else 0
            copied = CopiedRange(COPIED_FROM + number * length + hole, downstream, length - hole, hole)
            ranges.append(copied)
            reach, downstream = reach.after(copied), copied.downstream_end
        yield Segment(
            topic_partition=partition,
            sequence=sequence,
            era=0,
            topic_ids=TopicIds(),
            before=before,
            through=-1,
            ranges=tuple(ranges),
        )


def _cpu(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def _best(work: Callable[[], object]) -> float:
    return min(_cpu(work) for _ in range(REPEATS))


def _bytes(create: Callable[[], object]) -> int:
    """Return the bytes of memory that the result of ``create`` uses."""
    gc.collect()
    tracemalloc.start()
    try:
        made = create()
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
        del made
    finally:
        tracemalloc.stop()
    return size
