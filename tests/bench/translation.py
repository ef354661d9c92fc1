"""What a checkpoint cycle over 100,000 group-partitions costs: no broker, only what happens in memory."""

from __future__ import annotations

import asyncio
import gc
import random
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping

from mm2.core.checkpoints import Checkpoints, CommittedOffset, Emit
from mm2.core.exact_offset_journal import SLOTS
from mm2.core.exact_offset_records import SEGMENT_RANGES, CopiedRange, Reach, Segment, TopicIds
from mm2.core.exact_offsets import WINDOW, ExactOffsets
from mm2.core.formats import Checkpoint, OffsetSync
from mm2.core.names import Flow, TopicPartition
from mm2.core.offset_sync_store import OffsetSyncStore
from mm2.core.offset_translation import Translated, Translation
from mm2.core.policies import DefaultReplicationPolicy
from mm2.kafka.answer_reader import AnswerReader
from mm2.kafka.group_offset_requests import MANY_GROUPS, UndecodedOffsets, fetched_offsets
from mm2.kafka.raw_request import put_compact_string, put_varint
from tests.bench.results import TranslationCost
from tests.bench.screen import Screen

NAME = "translation"
TITLE = "a checkpoint cycle over 100,000 group-partitions"
AIM = "under one CPU-second"  # for translating and judging all of them

FLOW = Flow("A", "B")
GROUPS = 1_000  # at scale 1
PARTITIONS = 100  # of each topic; a group reads one topic
TOPICS = 100
REPEATS = 3  # the best counts: everything else is what other programs took
GROUPS_AN_ANSWER = 100

WORLD_END = 1_000_000  # of each source partition, in offsets
COPIED_FROM = 500_000  # since when the exact map knows a partition
DROPPED = 7  # target offsets are that much smaller
STEP = 500  # records a group reads between two cycles
HOLES_EVERY = 10  # so many partitions to one of a compacted topic
HOLE_RANGES = 200  # ranges of such a partition

Committed = Mapping[TopicPartition, CommittedOffset | None]
Translate = Callable[[TopicPartition, int], Translation]


class World:
    """Topics that were copied for a while, and groups that read them.

    A sync store holds 15 syncs of each partition, ever rarer towards its start. Half of the groups are near the end of
    their topic, half anywhere in its last two thirds; the exact map covers three of four of these.
    """

    def __init__(self, groups: int, partitions: int = PARTITIONS) -> None:
        """``partitions`` of each topic, and so of each group."""
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
        """``ranges``: how many, by the number of the partition."""
        offsets = ExactOffsets()
        for number, partition in enumerate(self.partitions):
            for segment in _segments(partition, ranges(number)):
                offsets.apply(segment)
        return offsets

    def _positions(self, topic: str) -> Committed:
        spread = STEP if self._random.random() < 0.5 else 2 * WORLD_END // 3
        latest = WORLD_END - (REPEATS + 1) * STEP
        return {
            TopicPartition(topic, number): CommittedOffset(offset=latest - self._random.randrange(spread))
            for number in self._numbers
        }


def measure(scale: float, screen: Screen) -> TranslationCost:
    """All figures, with ``scale`` times as many groups."""
    world = World(max(1, round(GROUPS * scale)))
    with screen.phase(f"{NAME}: CPU", 4) as told:
        syncs, exact = world.syncs(), world.exact(some_with_holes)
        told(1)
        moved, unmoved = _cycles(world, lambda one, offset: exact.translate(one, offset, syncs.translate))
        told(2)
        compatible, _ = _cycles(world, syncs.translate)
        told(3)
        decoding, encoding = _best(lambda: asyncio.run(_decode(world))), _encoding(world)
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
            map_bytes=_bytes(lambda: few.exact(one_range)) / len(few.partitions),
            full_map_bytes=_bytes(lambda: full.exact(full_window)) / len(full.partitions),
            checkpoint_bytes=_bytes(lambda: _remembered(few)) / (len(few.groups) * PARTITIONS),
        )


def _cycles(world: World, translate: Translate) -> tuple[float, float]:
    """CPU-seconds of a cycle in which every group has moved on, and of one in which none has."""
    checkpoints = Checkpoints(flow=FLOW, policy=DefaultReplicationPolicy(), selects=lambda topic: True)
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


async def _decode(world: World) -> None:
    for reader in _answers(world):
        await fetched_offsets(UndecodedOffsets(MANY_GROUPS, (), reader))


def _answers(world: World) -> Iterator[AnswerReader]:
    """What coordinators answer when asked for the offsets of all groups."""
    groups = list(world.groups.items())
    for start in range(0, len(groups), GROUPS_AN_ANSWER):
        some = groups[start : start + GROUPS_AN_ANSWER]
        body = bytearray(4)
        put_varint(body, len(some) + 1)
        for group, positions in some:
            put_compact_string(body, group)
            put_varint(body, 2)
            put_compact_string(body, next(iter(positions)).topic)
            put_varint(body, len(positions) + 1)
            for one, at in positions.items():
                body += struct.pack(">iqi", one.partition, at.offset if at else -1, 0) + b"\x01" + bytes(3)
            body += bytes(4)
        yield AnswerReader(bytes(body), flexible=True)


def _encoding(world: World) -> float:
    checkpoints = [
        Checkpoint(group=group, topic_partition=one, upstream_offset=at.offset, downstream_offset=at.offset)
        for group, positions in world.groups.items()
        for one, at in positions.items()
        if at is not None
    ]
    return _best(lambda: [(checkpoint.key(), checkpoint.value()) for checkpoint in checkpoints])


def _remembered(world: World) -> Checkpoints:
    checkpoints = Checkpoints(flow=FLOW, policy=DefaultReplicationPolicy(), selects=lambda topic: True)
    _cycle(checkpoints, world.groups, lambda one, offset: Translated(offset=offset - DROPPED, behind=0))
    return checkpoints


def one_range(number: int) -> int:
    return 1


def some_with_holes(number: int) -> int:
    return 1 if number % HOLES_EVERY else HOLE_RANGES


def full_window(number: int) -> int:
    return WINDOW


def _sync_offsets() -> Iterator[int]:
    """The last record, and 14 before it, twice as far away each time."""
    yield from (WORLD_END - 2**power for power in range(19, 5, -1))
    yield WORLD_END - 1


def _segments(partition: TopicPartition, count: int) -> Iterator[Segment]:
    """``count`` ranges of equal length from COPIED_FROM to WORLD_END, holes of one offset in between."""
    length = (WORLD_END - COPIED_FROM) // count
    reach, downstream = Reach(), COPIED_FROM - DROPPED
    for sequence, first in enumerate(range(0, count, SEGMENT_RANGES)):
        before, ranges = reach, []
        for number in range(first, min(count, first + SEGMENT_RANGES)):
            hole = 1 if number else 0
            copied = CopiedRange(COPIED_FROM + number * length + hole, downstream, length - hole, hole)
            ranges.append(copied)
            reach, downstream = reach.after(copied), copied.downstream_end
        yield Segment(
            topic_partition=partition,
            slot=sequence % SLOTS,
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


def _bytes(make: Callable[[], object]) -> int:
    """Memory that is still held by what ``make`` makes."""
    gc.collect()
    tracemalloc.start()
    try:
        made = make()
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
        del made
    finally:
        tracemalloc.stop()
    return size
