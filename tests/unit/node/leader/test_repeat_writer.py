"""Letters refer to the invariants of `RepeatWriter`. tests/integration/test_flow_copy_again.py has a whole node."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mm2.core.coordination.repeats import PlannedRepeat, Repeat, RepeatState, encode_repeat, requested
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.connect_offsets import decode_key, decode_offset
from mm2.core.offsets.exact_offset_records import UNKNOWN_IDS, TopicIds
from mm2.kafka.errors import ClusterError, RequestTimedOut
from mm2.node.leader.starts.repeat_writer import RepeatWriter
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.status.progress import ReplicatedTopic
from mm2.node.store.config_store import ConfigStore
from tests.lab.tasks import unconnected_cluster
from tests.unit.config.files import flow

ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
ID = UUID(int=7)
FAR = 1e9


class Offsets(StoredSourceOffsets):
    """Stored offsets in memory."""

    positions: dict[TopicPartition, int]

    async def refresh(self, **_: Any) -> None:
        pass

    def position(self, partition: TopicPartition) -> int | None:
        return self.positions[partition]


class Configs(ConfigStore):
    """A config topic in memory."""

    async def catch_up(self, **_: Any) -> None:
        pass


class Stage:
    """A writer with what it reads and writes in memory; ``running``: partitions that a source task may be running."""

    def __init__(self, directory: Path) -> None:
        settings, cluster = flow(directory), unconnected_cluster()
        self.configs = Configs(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
        self.offsets = Offsets(cluster, "offsets", settings.flow, source_alias="A", partitions=1)
        self.positions = self.offsets.positions = {ORDERS: 100, OTHER: 100}
        self.running: set[TopicPartition] = set()
        self.starts: dict[TopicPartition, int | ClusterError] = {ORDERS: 0, OTHER: 0}
        self.topics: Sequence[ReplicatedTopic] | None = (
            ReplicatedTopic(topic="orders", remote_topic="A.orders", partitions=2),
        )
        self.listed: list[frozenset[TopicPartition]] = []  # what was pending when the lists had to change
        self.fails_at: int | None = None  # the write that fails
        self.writes = 0
        self.now = 0.0
        self.writer = RepeatWriter(
            settings,
            configs=self.configs,
            stored=self.offsets,
            put=self.put,
            log_starts=self.log_starts,
            is_free=lambda one: one not in self.running,
            topics=lambda: self.topics,
            changed=lambda: self.listed.append(self.configs.repeats.pending),
            clock=lambda: self.now,
        )

    async def put(self, records: Sequence[tuple[bytes, bytes | None]], to: TopicPartition | None) -> None:
        self.writes += 1
        if self.writes == self.fails_at:
            raise RequestTimedOut("no answer")
        for key, value in records:
            if to is None:
                self.configs.repeats.take(key, value)
            else:
                found, offset = decode_key(key), decode_offset(value)
                assert offset is not None
                self.positions[TopicPartition(found.topic, found.partition)] = offset + 1  # type: ignore[union-attr]

    async def log_starts(self, some: Collection[TopicPartition]) -> Mapping[TopicPartition, int | ClusterError]:
        return {one: self.starts[one] for one in some}

    def state(self, partition: TopicPartition = ORDERS) -> RepeatState | None:
        repeat = self.configs.repeats.of(partition)
        return None if repeat is None else repeat.state


def asked(partition: TopicPartition = ORDERS, first: int = 10) -> Repeat:
    plan = PlannedRepeat(partition=partition, first=first, until=90)
    return requested(plan, number=0, by="alice", reason=None, topic_id=ID, now=1)


async def test_a_start_is_stored_when_no_source_task_runs_the_partition(tmp_path: Path) -> None:
    """(A): until then it is in no list, and what its lane stores last counts as copied."""
    stage = Stage(tmp_path)
    stage.running = {ORDERS}
    await stage.writer.request([asked()])
    assert stage.listed == [{ORDERS}]
    await stage.writer.step()
    assert (stage.state(), stage.positions[ORDERS]) == (RepeatState.REQUESTED, 100)
    assert not await stage.writer.settled([ORDERS], 0.01)
    stage.positions[ORDERS] = 120
    stage.running = set()
    await stage.writer.step()
    repeat = stage.configs.repeats.of(ORDERS)
    assert repeat is not None
    assert (repeat.state, repeat.first, repeat.until, stage.positions[ORDERS]) == (RepeatState.STARTED, 10, 120, 10)
    assert stage.listed == [{ORDERS}, frozenset()]
    assert await stage.writer.settled([ORDERS], 0.01)


@pytest.mark.parametrize("fails_at", [2, 3, 4])
async def test_the_next_leader_completes_what_a_lost_one_began(tmp_path: Path, fails_at: int) -> None:
    """(B): whichever write was the last one, the old position counts, or the new start."""
    stage = Stage(tmp_path)
    await stage.writer.request([asked()])
    stage.fails_at = fails_at
    with pytest.raises(RequestTimedOut):
        await stage.writer.step()
    assert stage.configs.repeats.pending == {ORDERS}, "no lane copies it meanwhile"
    assert stage.positions[ORDERS] == (100 if fails_at < 4 else 10)
    await stage.writer.step()
    repeat = stage.configs.repeats.of(ORDERS)
    assert repeat is not None
    assert (repeat.state, repeat.first, repeat.until, stage.positions[ORDERS]) == (RepeatState.STARTED, 10, 100, 10)


async def test_a_repeat_is_done_when_it_has_caught_up(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.writer.request([asked()])
    await stage.writer.step()
    stage.positions[ORDERS] = 100
    await stage.writer.step()
    assert stage.state() is RepeatState.STARTED, "it is looked every 10 s"
    stage.now += 10.0
    stage.positions[ORDERS] = 99
    await stage.writer.step()
    assert stage.state() is RepeatState.STARTED
    stage.now += 10.0
    stage.positions[ORDERS] = 100
    await stage.writer.step()
    assert stage.state() is RepeatState.DONE


async def test_partitions_without_a_known_start_do_not_delay_others(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.starts[ORDERS] = RequestTimedOut("no answer")
    await stage.writer.request([asked(), asked(OTHER)])
    with pytest.raises(RequestTimedOut):
        await stage.writer.step()
    assert (stage.state(), stage.state(OTHER)) == (RepeatState.REQUESTED, RepeatState.STARTED)
    stage.writer.error.report("cannot copy partitions again: no answer")
    assert list(stage.writer.reasons()) == ["cannot copy partitions again: no answer; not copied until then: orders-0"]
    stage.starts[ORDERS] = 0
    await stage.writer.step()
    assert stage.state() is RepeatState.STARTED
    assert list(stage.writer.reasons()) == ["cannot copy partitions again: no answer"]
    stage.writer.error.clear()
    assert list(stage.writer.reasons()) == []


@pytest.mark.parametrize(
    ("topics", "state"),
    [
        (None, RepeatState.STARTED),
        ((), RepeatState.CANCELLED),
        ((ReplicatedTopic(topic="orders", remote_topic="A.orders", partitions=0),), RepeatState.CANCELLED),
        (
            (
                ReplicatedTopic(
                    topic="orders", remote_topic="A.orders", partitions=1, topic_ids=TopicIds(UUID(int=8), None)
                ),
            ),
            RepeatState.CANCELLED,
        ),
        (
            (ReplicatedTopic(topic="orders", remote_topic="A.orders", partitions=1, topic_ids=UNKNOWN_IDS),),
            RepeatState.STARTED,
        ),
    ],
)
async def test_topics_that_are_gone(
    tmp_path: Path, topics: Sequence[ReplicatedTopic] | None, state: RepeatState
) -> None:
    stage = Stage(tmp_path)
    await stage.writer.request([asked()])
    stage.topics = topics
    await stage.writer.step()
    assert stage.state() is state


async def test_it_continues_what_earlier_leaders_have_left(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.configs.repeats.take(*encode_repeat(asked()))
    running = asyncio.create_task(stage.writer.run())
    assert await stage.writer.settled([ORDERS], FAR)
    running.cancel()
    await asyncio.wait([running])
    assert (stage.state(), stage.positions[ORDERS]) == (RepeatState.STARTED, 10)
