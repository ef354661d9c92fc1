"""However much there is to pack, the lane's event loop is not kept from its other work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from flows.batch.records import varint
from flows.batch.target_batch import ProducerId
from flows.lane.byte_budget import ByteBudget
from flows.lane.loop_turns import MAX_UNFINISHED, TURN_S, LoopTurns
from flows.partition.replicator import PartitionReplicator
from flows.target.produce_errors import from_response
from flows.target.producer import AlwaysOpen, BrokerProducer, Producer
from mm2.core.lanes.lease import PartitionLease
from mm2.core.settings.client import ClientSettings, ProduceSettings
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.lab.batches import HEADER, LOG_APPEND_TIME, sealed
from tests.lab.loop_blocks import loop_blocks
from tests.lab.ports import HOST, reserve_port
from tests.unit.flows.replicators import RecordingListener, arrive, data, partition, replicator_of, send

STEP_S = 0.05  # a step and the rest of a turn, with room for a slow machine


def tiny_records(count: int, attributes: int = LOG_APPEND_TIME) -> bytes:
    """A legal batch of ``count`` empty records, of which a megabyte holds more than a hundred thousand."""
    records = b"".join(
        varint(len(field) + 5) + b"\x00\x00" + field + b"\x01\x01\x00" for field in map(varint, range(count))
    )
    fields = (0, 49 + len(records), 0, 2, 0, attributes, count - 1, 0, 0, -1, -1, -1, count)
    return sealed(bytearray(HEADER.size) + records, fields)


class Ids:
    warning: str | None = None
    is_idempotent = True

    def assign(self, partition: PartitionReplicator) -> None:
        partition.set_producer_id(ProducerId(7, 0))

    def disable_idempotence(self, reason: str) -> None: ...


class Sender:
    """A producer of a cluster that cannot be reached."""

    def __init__(self, cluster: Cluster, turns: LoopTurns) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        producer = Producer(
            cluster,
            ProduceSettings(),
            ByteBudget(1 << 26),
            self._spawn,
            producer_ids=Ids(),
            gate=AlwaysOpen(),
            turns=turns,
        )
        self._broker = BrokerProducer(0, producer, probing=False)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    def start(self) -> None:
        self._spawn(self._broker.run())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    def partition(self, number: int, blob: bytes) -> PartitionReplicator:
        lease = PartitionLease(topic="orders", partition=number, remote_topic="A.orders", start_offset=0)
        replicator = replicator_of(lease, RecordingListener(), max_held_bytes=1 << 26)
        replicator.set_producer_id(ProducerId(7, 0))
        arrive(replicator, blob)
        self._broker.offer(replicator)
        return replicator


def was_sent(partition: PartitionReplicator) -> bool:
    return partition.batches_in_flight > 0 or partition.awaits_retry


async def test_batches_of_very_many_records_do_not_hold_the_loop() -> None:
    heavy = tiny_records(250_000)
    cluster = Cluster(ClientSettings(bootstrap_servers=(f"{HOST}:{reserve_port()}",)))
    turns = LoopTurns()
    senders = [Sender(cluster, turns) for _ in range(2)]
    large = [senders[number % 2].partition(number, heavy) for number in range(4)]
    light = [sender.partition(9, data(0)) for sender in senders]
    await asyncio.sleep(0)
    most = 0
    try:
        async with cluster, asyncio.timeout(60):
            with loop_blocks() as blocks:
                begun = time.thread_time()
                for sender in senders:
                    sender.start()
                while not all(map(was_sent, light)):  # noqa: ASYNC110 every turn of the loop counts
                    await asyncio.sleep(0)
                assert time.thread_time() - begun < 10 * (TURN_S + STEP_S)
                assert not any(map(was_sent, large))
                while not all(map(was_sent, large)):
                    await asyncio.sleep(0)
                    most = max(most, sum(one.is_packing for one in large))
    finally:
        for sender in senders:
            await sender.close()
    assert 1 <= most <= MAX_UNFINISHED
    assert blocks.longest < TURN_S + STEP_S, blocks
    assert time.thread_time() - begun > 10 * TURN_S, "these are not enough records to interrupt anything"


async def test_waiting_users_have_their_turns_in_order() -> None:
    turns, order = LoopTurns(turn_s=0.001), list[str]()

    async def use(name: str) -> None:
        for _ in range(3):
            async with turns:
                order.append(name)
                while not turns.is_over():
                    pass

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(use(name))
    assert order == list("aabcabcbc")  # the first one waits again before the others begin to


async def test_a_user_that_fails_or_is_cancelled_leaves_the_turn_to_others() -> None:
    turns = LoopTurns(turn_s=0.0)
    with suppress(ZeroDivisionError):
        async with turns:
            waiting = asyncio.create_task(turns.__aenter__())
            await asyncio.sleep(0)
            _ = 1 // 0
    waiting.cancel()
    async with asyncio.timeout(10):
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        async with turns:
            assert turns.is_over()


def test_packing_is_continued_where_it_was_interrupted() -> None:
    replicator, _ = partition(max_held_bytes=1 << 20)
    arrive(replicator, tiny_records(20_000))
    calls = 1
    while (entry := replicator.next_batch(0.0, lambda: True)) is None:
        assert replicator.is_packing
        arrive(replicator, data(19_999 + calls))
        calls += 1
    assert calls > 4
    assert (entry.batch.count, entry.batch.first_offset, replicator.is_packing) == (20_000, 0, False)


def test_interrupted_packing_is_dropped_with_what_was_fetched() -> None:
    replicator, _ = partition()
    arrive(replicator, tiny_records(20_000))
    assert replicator.next_batch(0.0, lambda: True) is None
    replicator.drain(0.0)
    assert (replicator.is_packing, replicator.is_idle, replicator.held_bytes) == (False, True, 0)


def test_a_large_batch_is_split_in_steps() -> None:
    count = 30_000
    replicator, _ = partition()
    arrive(replicator, tiny_records(count, attributes=0))
    (entry,) = send(replicator)
    replicator.produce_failed(entry, from_response(ErrorCode.MESSAGE_TOO_LARGE), 0.0)
    replicator.size_limit_read(entry.batch.size * 2 // 3, 0.0)
    assert replicator.packs_heavily
    calls = 1
    while (part := replicator.next_batch(0.0, lambda: True)) is None:
        assert replicator.is_packing
        calls += 1
        if calls == 5:
            replicator.abandon_packing()  # it begins again
            assert not replicator.is_packing
    assert calls > 12
    assert part.batch.first_offset == 0
    assert 0 < part.batch.count < count
