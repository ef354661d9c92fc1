"""Records that the target does not acknowledge. Letters refer to the invariants of `RecordRouter`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from flows.partition.timeouts import TIMEOUTS, Timeouts
from flows.routing.record_sender import RoutedRetryLimit
from flows.routing.router import DECODED_FRAMES
from mm2.core.lanes.task_states import TaskState
from mm2.core.mirror1.user_class import SourceRecord, TargetRecord
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.leader_epochs import EpochEnd
from mm2.kafka.errors import BrokerError, ClusterError, NoLeader, Unreachable
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.lab.waiting import GaveUp, until
from tests.unit.flows.replicators import WALL, arrive, data, message
from tests.unit.flows.routing.routed import SOON, Routed, by_offset, routed

REFUSED = Unreachable("B: broker 1 refuses connections")
MISSING = NoLeader(TopicPartition("t", 9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
CORRUPT = BrokerError(ErrorCode.CORRUPT_MESSAGE, "write to t-0")


def state(one: Routed) -> TaskState:
    return one.partition.progress(0.0, WALL).state


AT_ONCE: dict[str, Any] = {"timeouts": Timeouts(unanswered_report_s=0.1), "watch_interval_s": 0.02}
"""Report after a moment."""


@pytest.mark.parametrize(
    ("last_error", "expected"),
    [
        (REFUSED, "cannot copy orders-3: B: broker 1 refuses connections"),
        (None, "cannot copy orders-3: the target has not acknowledged its records within 0 s"),
    ],
)
@pytest.mark.parametrize("has_room", [True, False])
async def test_records_without_acknowledgement_are_reported(
    last_error: ClusterError | None, expected: str, *, has_room: bool
) -> None:
    async with routed(**AT_ONCE) as one:
        one.outbox.last_error = last_error
        if not has_room:
            one.outbox.has_room.clear()
        arrive(one.partition, data(0, 2))
        await until(lambda: state(one) is TaskState.WAITING, SOON, "the partition waits")
        assert message(one.partition) == expected
        one.outbox.has_room.set()
        await one.outbox.sends(0, 1)
        one.outbox.store()
        await one.reaches(2)
        assert (state(one), message(one.partition)) == (TaskState.RUNNING, None)


async def test_a_record_that_is_written_alone_is_reported() -> None:
    async with routed(**AT_ONCE) as one:
        arrive(one.partition, data(0, 1))
        await one.outbox.sends(0)
        one.outbox.reject(BrokerError(ErrorCode.INVALID_RECORD, "write to t-0"), 0)
        await one.outbox.sends(0, 0)
        one.outbox.last_error = REFUSED
        await until(lambda: "refuses" in (message(one.partition) or ""), SOON, "the partition waits")


async def test_memory_is_released_without_sending_again() -> None:
    """(D) Frames that are sent are awaited without their bytes; those that are not are fetched again."""
    async with routed() as one:
        partition = one.partition
        held = [arrive(partition, data(0, 3)), arrive(partition, data(3, 3))]
        await one.outbox.sends(*range(6))
        one.outbox.has_room.clear()
        held += [arrive(partition, data(6, 3)), arrive(partition, data(9, 3))]
        await until(lambda: one.outbox.waiting == 1, SOON, "the third frame waits for room")
        assert partition.unanswered_for(1e9) > 0
        partition.release_memory(0.0)
        assert (partition.held_bytes, partition.fetch_offset, partition.is_idle) == (held[2], None, False)
        partition.release_memory(0.0)
        assert partition.held_bytes == held[2]
        one.outbox.store(0, 1, 2)
        await one.reaches(3)
        assert partition.fetch_offset == 9
        arrive(partition, data(9, 3))
        one.outbox.has_room.set()
        await one.outbox.sends(*range(12))
        one.outbox.store()
        await one.reaches(12)
        assert (partition.held_bytes, one.listener.released) == (0, sum(held) + held[3])
        assert partition.unanswered_for(1e9) == 0


async def test_memory_of_frames_that_are_not_sent_is_released() -> None:
    async with routed() as one:
        arrive(one.partition, data(0, 3))
        one.partition.release_memory(0.0)
        assert (one.partition.held_bytes, one.partition.fetch_offset) == (0, 0)
        arrive(one.partition, data(0, 3))
        await one.outbox.sends(0, 1, 2)
        arrive(one.partition, data(3, 3))
        await one.outbox.sends(*range(6))
        one.partition.release_memory(0.0)
        one.outbox.store(0, 1, 2)
        await one.reaches(3)
        one.partition.release_memory(0.0)
        one.outbox.store()
        await one.reaches(6)


async def test_few_partitions_hold_decoded_records_while_they_wait_for_room() -> None:
    made: set[int] = set()

    def handle(record: SourceRecord) -> Sequence[TargetRecord]:
        made.add(record.partition)
        return by_offset(record)

    async with routed(handle) as one:
        one.outbox.has_room.clear()
        partitions = [one.another(number) for number in range(10, 20)]
        for partition in partitions:
            arrive(partition, data(0, 3))
        await until(lambda: one.outbox.waiting == DECODED_FRAMES, SOON, "some wait for room")
        with pytest.raises(GaveUp):
            await until(lambda: len(made) > DECODED_FRAMES, 0.2, "more are decoded")
        assert all(partition.unanswered_for(1e9) > 0 for partition in partitions)
        one.outbox.has_room.set()
        await until(lambda: len(one.outbox.sent) == 30, SOON, "all are sent")
        one.outbox.store()
        await until(lambda: {partition.position for partition in partitions} == {3}, SOON, "all are copied")


async def test_a_frame_that_was_dropped_is_not_sent_to_the_end() -> None:
    async with routed(records_at_once=2) as one:
        one.outbox.has_room.clear()
        arrive(one.partition, data(0, 5, epoch=1))
        await until(lambda: one.outbox.waiting == 1, SOON, "it waits for room")
        assert one.partition.diverged(5, EpochEnd(0, 0), 0.0)
        one.outbox.has_room.set()
        await one.outbox.sends(0, 1)
        one.outbox.store()
        arrive(one.partition, data(0, 2))
        await one.outbox.sends(0, 1, 0, 1)


def test_a_partition_that_does_not_exist_fails_after_a_minute() -> None:
    limit = RoutedRetryLimit()
    assert not limit.is_exceeded(MISSING, 0.0)
    assert not limit.is_exceeded(MISSING, TIMEOUTS.missing_topic_s - 1)
    assert limit.is_exceeded(MISSING, TIMEOUTS.missing_topic_s + 1)
    limit.reset()
    assert not limit.is_exceeded(MISSING, TIMEOUTS.missing_topic_s + 2)


def test_a_corrupt_batch_fails_after_three_attempts() -> None:
    limit = RoutedRetryLimit()
    assert [limit.is_exceeded(CORRUPT, now) for now in (0.0, 0.1, 0.2)] == [False, False, True]


def test_a_cluster_that_is_down_is_retried_without_end() -> None:
    limit = RoutedRetryLimit()
    assert not any(limit.is_exceeded(REFUSED, now) for now in (0.0, 1e3, 1e6))
