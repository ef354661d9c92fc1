"""Letters refer to the invariants of `RecordRouter`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from flows.partition.rejection import Stage
from flows.partition.timeouts import TIMEOUTS
from flows.routing.partition_router import BYTES_AT_ONCE, make_some
from mm2.core.mirror1.user_class import SourceRecord, TargetRecord, UserClassError
from mm2.core.offsets.leader_epochs import EpochEnd
from mm2.kafka.errors import BrokerError, NotSupported
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.lab.batches import HEADER, Batch, Record, sealed
from tests.lab.busy_threads import busy_threads
from tests.lab.waiting import GaveUp, until
from tests.unit.flows.replicators import WALL, arrive, data, is_failed, message
from tests.unit.flows.routing.routed import SOON, Routed, by_offset, routed

TOO_LARGE = BrokerError(ErrorCode.MESSAGE_TOO_LARGE, "write to t-0")


async def leaves(one: Routed) -> asyncio.Task[None]:
    """Remove the partition, and let its router run."""
    leaving = asyncio.create_task(one.router.remove(one.partition))
    await asyncio.wait({leaving}, timeout=0.05)
    return leaving


async def test_a_partition_leaves_after_what_follows_a_dead_letter_is_written() -> None:
    """(E)"""
    async with routed() as one:
        arrive(one.partition, data(0, 5))
        arrive(one.partition, data(5, 5))
        await one.outbox.sends(*range(10))
        one.partition.drain(0.0)
        one.outbox.store(0, 1)
        one.outbox.reject(TOO_LARGE, 2, 3, 4)
        await one.outbox.sends(*range(10), 2)
        one.outbox.reject(TOO_LARGE, 2)
        assert await one.letter() == 2
        one.partition.dead_letter_written(one.listener.letters[0], 0.0)
        assert (one.partition.is_idle, one.partition.position, one.outbox.pending) == (True, 3, [5, 6, 7, 8, 9])
        leaving = await leaves(one)
        assert not leaving.done()
        one.outbox.store()
        await leaving
        assert (one.partition.position, one.outbox.offsets) == (3, [*range(10), 2])


async def test_a_partition_leaves_after_truncated_records_are_written() -> None:
    """(E)"""
    async with routed() as one:
        arrive(one.partition, data(0, 5, epoch=1), data(5, 5, epoch=2))
        await one.outbox.sends(*range(10))
        assert one.partition.diverged(10, EpochEnd(1, 3), 0.0)
        one.partition.drain(0.0)
        leaving = await leaves(one)
        assert (one.partition.is_idle, leaving.done()) == (True, False)
        one.outbox.reject(TOO_LARGE, 9)
        one.outbox.store()
        await leaving
        assert one.outbox.pending == []


async def test_a_partition_that_was_never_routed_leaves_at_once() -> None:
    async with routed() as one:
        await one.router.remove(one.partition)


async def test_handlers_do_not_use_the_threads_of_the_event_loop() -> None:
    """In these, the addresses of hosts are looked up."""
    with busy_threads():
        async with routed() as one:
            arrive(one.partition, data(0, 2))
            await one.outbox.sends(0, 1)
            one.outbox.store()
            await one.reaches(2)


@pytest.mark.parametrize("handled", [False, True])
async def test_what_follows_a_rejected_record_is_written_again(*, handled: bool) -> None:
    """(C)"""
    async with routed() as one:
        arrive(one.partition, data(0, 3))
        arrive(one.partition, data(3, 2))
        await one.outbox.sends(*range(5))
        one.outbox.store(0)
        one.outbox.reject(TOO_LARGE, 1, 2)
        await one.outbox.sends(*range(5), 1)
        if handled:
            one.outbox.reject(TOO_LARGE, 1)
            assert await one.letter() == 1
            one.partition.dead_letter_written(one.listener.letters[0], 0.0)
            assert (one.partition.position, one.partition.fetch_offset) == (2, 2)
        else:
            one.outbox.store(1)
            await one.outbox.sends(*range(5), 1, 2)
            one.outbox.store(2)
            await one.reaches(3)
            assert one.partition.fetch_offset == 3


async def test_records_wait_for_room() -> None:
    async with routed() as one:
        one.outbox.has_room.clear()
        arrive(one.partition, data(0, 3))
        await until(lambda: one.outbox.waiting == 1, SOON, "the router waits")
        assert one.outbox.offsets == []
        one.outbox.has_room.set()
        await one.outbox.sends(0, 1, 2)
        one.outbox.store()
        await one.reaches(3)


async def test_a_record_that_exceeds_the_buffer_is_rejected() -> None:
    """What is before it is written; it would never find room."""
    async with routed() as one:
        arrive(one.partition, data(0, 2), data(2, 1, value_bytes=2_000))
        await one.outbox.sends(0, 1)
        one.outbox.store()
        assert await one.letter() == 2
        (letter,) = one.listener.letters
        assert (one.partition.position, letter.stage) == (2, Stage.PRODUCE)
        assert "cannot write to t-0: MESSAGE_TOO_LARGE" in letter.message


async def test_what_was_sent_of_a_record_that_cannot_be_sent_is_awaited() -> None:
    """(E)"""

    def two(record: SourceRecord) -> Sequence[TargetRecord]:
        return [*by_offset(record), TargetRecord(topic="t", key=b"9", value=bytes(2_000), partition=0)]

    async with routed(two) as one:
        arrive(one.partition, data(0, 1))
        await one.outbox.sends(0)
        leaving = await leaves(one)
        assert (leaving.done(), one.listener.letters) == (False, [])
        one.outbox.store()
        await leaving
        assert await one.letter() == 0


@pytest.mark.parametrize(
    ("code", "is_letter", "exception"),
    [
        (ErrorCode.MESSAGE_TOO_LARGE, True, "org.apache.kafka.common.errors.RecordTooLargeException"),
        (ErrorCode.INVALID_RECORD, True, "org.apache.kafka.common.InvalidRecordException"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False, None),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, False, None),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False, None),
        (None, False, None),
    ],
)
async def test_only_errors_about_records_make_dead_letters(
    code: ErrorCode | None, exception: str | None, *, is_letter: bool
) -> None:
    """Other errors stop the partition, which is tried again, instead of sending whole topics to the letters."""
    error = NotSupported("B: too old") if code is None else BrokerError(code, "write to t-0")
    async with routed() as one:
        arrive(one.partition, data(0, 2))
        await one.outbox.sends(0, 1)
        one.outbox.store(0)
        one.outbox.reject(error, 1)
        await one.outbox.sends(0, 1, 1)
        one.outbox.reject(error, 1)
        await one.reaches(1)
        assert one.partition.progress(0.0, WALL).counters.records == 1
        assert is_failed(one.partition) is not is_letter
        assert [letter.exception for letter in one.listener.letters] == ([exception] if is_letter else [])
        assert f"cannot copy orders-3 offset 1: {error}" in (message(one.partition) or "")


async def test_the_error_of_a_handler_is_about_its_record() -> None:
    def fails(record: SourceRecord) -> Sequence[TargetRecord]:
        raise UserClassError(f"no {record.offset}")

    async with routed(fails) as one:
        arrive(one.partition, data(0, 1))
        assert await one.letter() == 0
        assert one.listener.letters[0].exception == "org.apache.kafka.connect.errors.ConnectException"


async def test_nothing_is_sent_after_a_record_that_cannot_be_made() -> None:
    """It would be written twice: what follows is fetched again. Also if a frame before it is acknowledged meanwhile."""

    def fails_at_4(record: SourceRecord) -> Sequence[TargetRecord]:
        if record.offset == 4:
            raise UserClassError("four")
        return by_offset(record)

    async with routed(fails_at_4) as one:
        for offset in (0, 3, 6, 9):
            arrive(one.partition, data(offset, 3))
        await one.outbox.sends(0, 1, 2, 3)
        one.outbox.store(0, 1, 2)
        await one.reaches(3)
        with pytest.raises(GaveUp):
            await until(lambda: len(one.outbox.sent) > 4, 0.2, "more is sent")
        one.outbox.store()
        assert await one.letter() == 4
        assert one.partition.progress(0.0, WALL).counters.records == 4
        one.partition.dead_letter_written(one.listener.letters[0], 0.0)
        arrive(one.partition, data(5, 4))
        await one.outbox.sends(0, 1, 2, 3, 5, 6, 7, 8)


def expanding(count: int) -> bytes:
    """A batch of few bytes with many tiny records."""
    return Batch(records=[Record(at, 5, b"%d" % at, bytes(40)) for at in range(count)], codec=4).encode()


async def test_a_frame_with_many_records_is_decoded_in_steps() -> None:
    """The objects of a record take about 370 bytes, and a batch of a megabyte can contain a hundred million."""
    async with routed(records_at_once=10, records_unanswered=30) as one:
        arrive(one.partition, expanding(100))
        await one.outbox.sends(*range(30))
        await asyncio.sleep(0)
        assert one.outbox.offsets == [*range(30)], "the next ones wait for acknowledgements"
        one.outbox.store(*range(10))
        await one.outbox.sends(*range(40))
        assert one.partition.position == 0, "the frame is not complete"

        def is_complete() -> bool:
            one.outbox.store()
            return one.partition.position == 100

        await until(is_complete, SOON, "the frame is complete")
        assert one.outbox.offsets == [*range(100)]


def test_large_records_are_made_a_few_at_a_time() -> None:
    """The topic of a record decides nothing about its size: 500 of 1 MB would take half a gigabyte."""

    def record(offset: int) -> SourceRecord:
        value = bytes(BYTES_AT_ONCE // 4)
        return SourceRecord(
            topic="t", partition=0, offset=offset, timestamp_ms=0, key=None, value=value, headers=(("h", b""),)
        )

    handled: list[int] = []

    def handle(one: SourceRecord) -> list[TargetRecord]:
        handled.append(one.offset)
        return []

    records = map(record, range(10))
    assert not make_some(handle, records, 500).is_last
    assert handled == [*range(4)]
    assert not make_some(handle, records, 3).is_last
    assert handled == [*range(7)]
    assert make_some(handle, records, 500).is_last


async def test_what_was_sent_after_a_rejected_record_of_the_same_frame_is_written_again() -> None:
    """(C)"""
    async with routed(records_at_once=2) as one:
        arrive(one.partition, data(0, 6))
        await one.outbox.sends(*range(6))
        one.outbox.store(0, 1, 3, 4, 5)
        one.outbox.reject(TOO_LARGE, 2)
        await one.outbox.sends(*range(6), 2)
        one.outbox.store(2)
        await one.outbox.sends(*range(6), 2, 3)
        one.outbox.store(3)
        await one.reaches(4)
        assert one.partition.fetch_offset == 4


async def test_a_record_that_is_too_large_becomes_a_dead_letter() -> None:
    records = [Record(at, 5, b"%d" % at, bytes(100_000 if at == 1 else 10)) for at in range(3)]
    async with routed(max_record=50_000) as one:
        arrive(one.partition, Batch(records=records, codec=4).encode())
        await one.outbox.sends(0)
        one.outbox.store()
        assert await one.letter() == 1
        (letter,) = one.listener.letters
        assert "the record at offset 1 is too large" in letter.message
        assert one.partition.position == 1


@pytest.mark.parametrize("records_at_once", [2, 500])
async def test_records_before_bytes_that_cannot_be_decoded_are_written_once(records_at_once: int) -> None:
    """The partition moves over them, so they are not written again whenever it is retried."""
    raw = bytearray(data(0, 6))
    header = list(HEADER.unpack_from(raw))
    header[6], header[12] = 6, 7  # one record more than there is
    async with routed(records_at_once=records_at_once, dead_letters=None) as one:
        arrive(one.partition, sealed(raw, header))
        await one.outbox.sends(*range(6))
        one.outbox.store()
        await one.reaches(6)
        await until(lambda: is_failed(one.partition), SOON, "the partition has stopped")
        assert "offset 6 to" in (message(one.partition) or "")
        one.partition.wake(time.monotonic() + TIMEOUTS.failed_retry_s)
        arrive(one.partition, sealed(raw, header))
        await until(lambda: one.partition.is_idle, SOON, "the frame is reported")
        assert one.outbox.offsets == [*range(6)]
