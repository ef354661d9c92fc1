"""Leases that lack what the target did not permit when they were granted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from mm2.config.clients.flow_clients import ClientRole
from mm2.core.lanes.lease import TaskProducer
from mm2.core.naming.names import Flow, TopicPartition
from mm2.kafka.client.cluster import Cluster
from mm2.node.source.lease_builder import LeaseBuilder
from mm2.node.source.source_task_fence import Acquired, SourceTaskFence
from mm2.node.source.source_task_leases import CHECK_EVERY_S, MissingPermissions
from mm2.node.source.task_producers import TaskProducers
from tests.lab.waiting import until
from tests.unit.config import files

FLOW = Flow("A", "B")
SOON = 10.0  # seconds


class Fence(SourceTaskFence):
    """The target's answers: it fences the source tasks in ``permitted``, and does not answer while ``silent``."""

    def __init__(self, directory: Path) -> None:
        settings = files.flow(directory)
        super().__init__(settings, Cluster(settings.clients.of(ClientRole.RECORDS)), self._released)
        self.permitted: set[int] = set()
        self.asked: list[int] = []
        self.answering = asyncio.Event()
        self.answering.set()

    async def _released(self, _: int) -> None:
        return None

    async def acquire(self, source_task: int, remote: Collection[TopicPartition]) -> Acquired:
        producer = TaskProducer(f"id-{source_task}", 7, 0) if source_task in self.permitted else None
        return Acquired(producer, after_loss=False)

    async def fences_again(self, source_task: int) -> bool:
        self.asked.append(source_task)
        await self.answering.wait()
        return source_task in self.permitted


@dataclass(slots=True)
class Builder:
    """Whether exact offsets can be used, as of the last time that this was found out."""

    can_be_used: bool = True
    lacks_exact_offsets: bool = False

    async def refresh_exact_offsets(self) -> None:
        self.lacks_exact_offsets = not self.can_be_used


@dataclass(slots=True)
class Parts:
    """``now`` is the time that the gaps are told."""

    fence: Fence
    producers: TaskProducers
    builder: Builder
    permissions: MissingPermissions
    now: float = 1_000.0

    async def start(self, *source_tasks: int) -> None:
        """Let lanes write for these source tasks, with the producers that the target permits."""
        for source_task in source_tasks:
            self.producers.acquire(source_task, set())
            await until(partial(self.producers.is_ready, source_task), SOON, "a producer is acquired")
            self.producers.mark_used(source_task)

    def take(self, after: float = 0.0) -> set[int]:
        self.now += after
        return self.permissions.take_permitted(self.now)

    async def round(self) -> set[int]:
        """Run the next round, and return what it found."""
        self.take()
        assert self.take(CHECK_EVERY_S) == set()
        task = self.permissions._round
        assert task is not None
        await asyncio.wait([task])
        return self.take()


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    fence, builder = Fence(tmp_path), Builder()

    async def after_loss(_: int) -> None: ...

    def changed() -> None: ...

    producers = TaskProducers(FLOW, fence, after_loss=after_loss, changed=changed)
    permissions = MissingPermissions(FLOW, producers, cast("LeaseBuilder", builder), changed=changed)
    yield Parts(fence, producers, builder, permissions)
    await permissions.close()
    await producers.close()


async def test_a_target_that_does_not_answer_delays_nothing(parts: Parts) -> None:
    """No round starts before the last one has ended, either."""
    await parts.start(0, 1, 2)
    parts.fence.answering.clear()
    assert parts.take() == set()
    assert parts.permissions._round is None, "the answer was given just now"
    assert parts.take(CHECK_EVERY_S) == set()
    await until(lambda: parts.fence.asked == [0], SOON, "the target is asked")
    assert parts.take(CHECK_EVERY_S) == set()
    parts.fence.permitted = {0}
    parts.fence.answering.set()
    await until(lambda: parts.take() == {0}, SOON, "the answer is used")


async def test_a_round_ends_with_the_first_source_task_that_is_not_fenced(parts: Parts) -> None:
    await parts.start(0, 1, 2)
    for asked in (0, 1, 2, 0):
        assert await parts.round() == set()
        assert parts.fence.asked.pop() == asked
    assert parts.fence.asked == []


async def test_all_source_tasks_that_are_permitted_are_found_in_one_round(parts: Parts) -> None:
    await parts.start(0, 1, 2)
    parts.fence.permitted = {0, 1}
    assert await parts.round() == {0, 1}
    assert parts.take() == set(), "each is reported once a round"


async def test_fenced_source_tasks_lack_nothing(parts: Parts) -> None:
    parts.fence.permitted = {0}
    await parts.start(0)
    parts.permissions.granted(0)
    parts.take()
    assert parts.take(CHECK_EVERY_S) == set()
    assert parts.permissions._round is None


async def test_exact_offsets_that_can_be_used_again(parts: Parts) -> None:
    parts.fence.permitted = {0, 1, 2}
    await parts.start(0, 1, 2)
    parts.builder.lacks_exact_offsets, parts.builder.can_be_used = True, False
    for source_task in (0, 1, 2):
        parts.permissions.granted(source_task)
    parts.permissions.forget(2)
    assert await parts.round() == set()
    parts.builder.can_be_used = True
    assert await parts.round() == {0, 1}
    for source_task in (0, 1):
        parts.permissions.granted(source_task)
    assert parts.take(CHECK_EVERY_S) == set()


async def test_a_producer_is_not_acquired_while_the_target_is_asked(parts: Parts) -> None:
    """The answer to the question is a newer epoch, which would fence it."""
    await parts.start(0)
    parts.fence.permitted = {0}
    parts.fence.answering.clear()
    asking = asyncio.create_task(parts.producers.fences_again(0))
    await until(lambda: parts.fence.asked == [0], SOON, "the target is asked")
    parts.producers.acquire(0, set())
    assert not await parts.producers.fences_again(0)
    parts.fence.answering.set()
    assert await asking
    await parts.start(0)
    assert parts.producers.of(0) == TaskProducer("id-0", 7, 0)


async def test_a_source_task_that_is_released_while_the_target_is_asked(parts: Parts) -> None:
    await parts.start(0)
    parts.fence.answering.clear()
    asking = asyncio.create_task(parts.producers.fences_again(0))
    await until(lambda: parts.fence.asked == [0], SOON, "the target is asked")
    parts.producers.forget(0)
    assert not await asking


async def test_an_unexpected_error_is_logged_and_the_next_round_starts(
    parts: Parts, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await parts.start(0)
    with monkeypatch.context() as broken:
        broken.setattr(parts.fence, "fences_again", None)
        assert await parts.round() == set()
    assert "unexpected error while looking whether the target permits fencing" in caplog.text
    parts.fence.permitted = {0}
    assert await parts.round() == {0}
