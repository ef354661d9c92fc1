"""Frames of a source task in the query of its lane."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from flows.batch.choice import BatchRules
from flows.batch.decoded import MAX_RECORD
from flows.batch.header import CorruptBatchError, read_header
from flows.batch.record_reader import DecodedRecord
from flows.batch.target_batch import ProducerId, SourceBatch
from flows.partition.frames_in_query import FrameInQuery, FrameResult
from flows.partition.replicator import PartitionReplicator
from flows.sql.exchange import RowsOfFrame
from flows.sql.query_stage import FATAL, UNEXPLAINED, LaneQueryRun, QueryStage, record_at, single_batch
from flows.sql.written import FailedRow
from mm2.core.lanes.query_trials import NO_TRIAL, FatalRecord, FrameSpan, QueryTrial, SuspectSpan
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import TopicIds
from tests.lab.batches import LOG_APPEND_TIME, Batch, Record, read, sealed
from tests.unit.flows.replicators import arrive, message, partition

TOPIC_ID = UUID(int=7)
HEADERS = (("h", b"1"), ("h", None))


class Exchange:
    """Records what is sent."""

    is_ordered = False

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.trial = NO_TRIAL
        self.asked: list[FrameSpan] = []

    @asynccontextmanager
    async def turn(self, span: FrameSpan) -> AsyncIterator[None]:
        self.asked.append(span)
        yield

    def send(self, topic: str, number: int, batches: list[memoryview], **options: Any) -> None:
        self.sent.append({"topic": topic, "partition": number, "batches": batches, **options})


class Partition:
    """Records the results."""

    source, target = TopicPartition("orders", 3), TopicPartition("A.orders", 3)
    topic_ids = TopicIds(source=TOPIC_ID)

    def __init__(self) -> None:
        self.results: list[tuple[int, FrameResult]] = []

    def awaits(self, number: int) -> bool:
        return True

    def transformed(self, number: int, result: FrameResult, now: float) -> None:
        self.results.append((number, result))

    def is_stopped_at(self, offset: int) -> bool:
        return False


def frame(*encoded: bytes, start: int = 0) -> FrameInQuery:
    batches = []
    for raw in encoded:
        header = read_header(memoryview(raw), 0)
        batches.append(SourceBatch(header, memoryview(raw), header.next_offset, 0, 9.0))
    return FrameInQuery(4, start, batches)


def first_and_second(**options: Any) -> tuple[bytes, bytes]:
    first = Batch(records=[Record(at, at, b"%d" % at, b"v", HEADERS) for at in (0, 1)], **options)
    second = Batch(records=[Record(at, at, b"%d" % at, b"v", HEADERS) for at in (2, 5)], codec=1, **options)
    return first.encode(), second.encode()


class Limits:
    """A limit of records that the source raises, or not."""

    def __init__(self, *limits: int) -> None:
        self._limits = list(limits) or [MAX_RECORD]

    def of(self, topic: str) -> int:
        return self._limits[0]

    async def allows_more(self, topic: str, than: int) -> bool:
        if self._limits[0] <= than and len(self._limits) > 1:
            del self._limits[0]
        return self._limits[0] > than


def stage(
    answer: str | None = "divided by zero", limits: Limits | None = None
) -> tuple[QueryStage, Exchange, list[tuple[str, int, bytes]]]:
    exchange = Exchange()
    asked: list[tuple[str, int, bytes]] = []

    async def failure_of(topic: str, number: int, batch: bytes) -> str | None:
        asked.append((topic, number, batch))
        return answer

    def spawn(work: Coroutine[Any, Any, None]) -> None:
        asyncio.run(work)

    run = LaneQueryRun(exchange, failure_of)  # type: ignore[arg-type]
    tested = run.of_source_task("q", BatchRules(), limits or Limits(), spawn)  # type: ignore[arg-type]
    return tested, exchange, asked


def submitted(
    of: FrameInQuery, rows: RowsOfFrame, answer: str | None = "divided by zero", limits: Limits | None = None
) -> tuple[Any, Any]:
    tested, exchange, asked = stage(answer, limits)
    told = Partition()
    tested.submit(told, of)  # type: ignore[arg-type]
    exchange.sent[0]["done"](rows)
    ((number, result),) = told.results
    assert number == 4
    return result, asked


def test_a_frame_is_sent_with_the_codec_of_its_batches() -> None:
    tested, exchange, _ = stage()
    of = frame(*first_and_second(), start=1)
    tested.submit(Partition(), of)  # type: ignore[arg-type]
    (sent,) = exchange.sent
    assert (sent["topic"], sent["partition"], sent["wanted"], sent["codec"]) == ("orders", 3, 1, 1)
    assert [bytes(one) for one in sent["batches"]] == list(first_and_second())


def test_results_reach_the_partition() -> None:
    tested, exchange, _ = stage()
    replicator, _ = partition(transform=tested)
    replicator.set_producer_id(ProducerId(7, 0))
    arrive(replicator, *first_and_second())
    exchange.sent[0]["done"](RowsOfFrame())
    assert replicator.position == 6


def test_an_undecodable_frame() -> None:
    result, asked = submitted(frame(*first_and_second()), RowsOfFrame(undecodable="bad bytes"))
    assert (result, asked) == (FrameResult(unreadable="bad bytes"), [])


@pytest.mark.parametrize("answer", ["divided by zero", None])
def test_spark_explains_why_the_query_failed(answer: str | None) -> None:
    result, asked = submitted(frame(*first_and_second()), RowsOfFrame(failed=FailedRow(5, None)), answer)
    ((topic, number, batch),) = asked
    assert (topic, number, read(sealed(bytearray(batch), read_fields(batch)))) == (
        "orders",
        3,
        [Record(5, 5, b"5", b"v", HEADERS)],
    )
    failed = result.failed
    assert (failed.first, failed.until, failed.message) == (
        5,
        6,
        f"cannot copy orders-3 offset 5 to A.orders-3: query q failed: {answer or UNEXPLAINED}",
    )
    headers = ((b"h", b"1"), (b"h", None))
    assert failed.record == DecodedRecord(timestamp_ms=5, key=b"5", value=b"v", headers=headers)


def read_fields(batch: bytes) -> tuple[int, ...]:
    return tuple(read_header(memoryview(batch), 0))


class Failing:
    """A partition with one record in each of its frames, for all of which the query fails. ``silent``: how often Spark
    does not answer at first."""

    def __init__(self, frames: int, *, silent: int = 0) -> None:
        self.silent = silent
        self.asked: list[int] = []
        self.questions: list[Coroutine[Any, Any, None]] = []
        self.exchange = Exchange()
        run = LaneQueryRun(self.exchange, self._failure_of, asked_again_s=0.0)  # type: ignore[arg-type]
        self.stage = run.of_source_task("q", BatchRules(), Limits(), self.questions.append)  # type: ignore[arg-type]
        self.replicator, _ = partition(transform=self.stage)
        self.replicator.set_producer_id(ProducerId(7, 0))
        self.arrive(frames)

    async def _failure_of(self, topic: str, number: int, batch: bytes) -> str | None:
        self.asked.append(read_header(memoryview(batch), 0).base_offset)
        self.silent -= 1
        return "divided by zero" if self.silent < 0 else None

    def arrive(self, frames: int) -> None:
        for _ in range(frames):
            at = self.replicator.fetch_offset
            assert at is not None
            arrive(self.replicator, Batch(records=[Record(at, at, b"k", b"v", ())]).encode())

    def retry(self) -> None:
        """The partition fetches the record again, and the query fails again."""
        self.replicator.wake(time.monotonic() + 60.0)
        self.arrive(1)
        self.answer(len(self.exchange.sent) - 1)

    def answer(self, frame: int) -> None:
        """The query has returned its result for the frame with this index in the order of submission."""
        sent = self.exchange.sent[frame]
        sent["done"](RowsOfFrame(failed=FailedRow(sent["wanted"], None)))

    def explain(self) -> None:
        """Let Spark answer all questions."""
        while self.questions:
            asyncio.run(self.questions.pop(0))


def test_spark_is_asked_about_the_first_failed_record_only() -> None:
    """What follows is fetched again, so the engine would evaluate the query for nothing, and later for what counts."""
    failing = Failing(8)
    for frame in range(8):
        failing.answer(frame)
    failing.explain()
    assert failing.asked == [0]
    assert failing.replicator.position == 0
    assert "divided by zero" in (message(failing.replicator) or "")


def test_spark_is_asked_again_while_a_record_without_its_message_stops_the_partition() -> None:
    failing = Failing(1, silent=3)
    failing.answer(0)
    asyncio.run(failing.questions.pop(0))
    assert "query q failed: Spark has not answered within 5 s" in (message(failing.replicator) or "")
    failing.explain()
    assert failing.asked == [0, 0, 0, 0]
    assert "query q failed: divided by zero" in (message(failing.replicator) or "")
    assert not failing.stage._asking_again


def test_a_message_remains_when_the_record_is_tried_again() -> None:
    failing = Failing(1)
    failing.answer(0)
    failing.explain()
    failing.silent = 5
    failing.retry()
    failing.explain()
    assert failing.asked == [0, 0]
    assert "query q failed: divided by zero" in (message(failing.replicator) or "")


def test_a_record_that_no_longer_stops_the_partition_is_not_asked_about_again() -> None:
    failing = Failing(1, silent=5)
    failing.answer(0)
    asyncio.run(failing.questions.pop(0))
    failing.replicator.request_skip(0, 0.0)
    failing.explain()
    assert failing.asked == [0]
    assert not failing.stage._asking_again


def test_a_partition_that_has_left_is_not_asked_about_again() -> None:
    failing = Failing(1, silent=5)
    failing.answer(0)
    asyncio.run(failing.questions.pop(0))
    asyncio.run(failing.stage.remove(failing.replicator))
    failing.explain()
    assert failing.asked == [0]


def test_a_partition_that_is_moved_back_while_spark_is_asked() -> None:
    """Its frames come again, and Spark is asked again: the answer to the earlier question comes for a dropped frame."""
    failing = Failing(2)
    failing.answer(0)
    failing.replicator.roll_back(0.0)
    failing.answer(1)  # dropped, too
    failing.arrive(2)
    failing.answer(2)
    failing.answer(3)
    assert len(failing.questions) == 2
    failing.explain()
    assert failing.asked == [0, 0]
    assert "divided by zero" in (message(failing.replicator) or "")


def test_a_partition_that_left_while_spark_was_asked() -> None:
    failing = Failing(1)
    failing.answer(0)
    asyncio.run(failing.stage.remove(failing.replicator))
    failing.explain()
    assert not failing.stage._failing


def test_a_value_that_cannot_be_written_explains_itself() -> None:
    result, asked = submitted(frame(*first_and_second()), RowsOfFrame(failed=FailedRow(1, "NULL timestamp")))
    assert asked == []
    assert "query q failed: NULL timestamp" in result.failed.message


def test_a_record_that_cannot_be_read_again_has_no_content() -> None:
    result, asked = submitted(frame(*first_and_second()), RowsOfFrame(failed=FailedRow(3, None)))
    assert asked == []
    assert (result.failed.first, result.failed.record) == (3, None)
    with pytest.raises(CorruptBatchError, match="no record at offset 9"):
        record_at(frame(*first_and_second()), 9, MAX_RECORD)


def test_a_record_that_is_too_large_is_not_decoded_again() -> None:
    large = RowsOfFrame(failed=FailedRow(1, "the record at offset 1 is too large", too_large=True))
    result, asked = submitted(frame(*first_and_second()), large)
    assert asked == []
    failed = result.failed
    assert (failed.first, failed.until, failed.record, failed.batch) == (1, 2, None, None)
    assert failed.message == "cannot copy orders-3 offset 1 to A.orders-3: the record at offset 1 is too large"


def test_a_record_that_the_topic_allows_passes_through_again() -> None:
    large = RowsOfFrame(failed=FailedRow(1, "the record at offset 1 is too large", too_large=True))
    result, _ = submitted(frame(*first_and_second()), large, limits=Limits(1_000, 2_000))
    assert result == FrameResult(again_from=1)


def test_records_of_two_partitions_that_the_topic_allows_pass_through_again() -> None:
    """Both were submitted before it was known that the topic allows them."""
    tested, exchange, _ = stage(limits=Limits(1_000, 2_000))
    partitions = Partition(), Partition()
    for one in partitions:
        tested.submit(one, frame(*first_and_second()))  # type: ignore[arg-type]
    large = RowsOfFrame(failed=FailedRow(1, "the record at offset 1 is too large", too_large=True))
    for sent in exchange.sent:
        sent["done"](large)
    assert [one.results for one in partitions] == [[(4, FrameResult(again_from=1))]] * 2


def test_an_unexpected_error_ends_the_source_task() -> None:
    """In a callback of the event loop it would only be logged, and the next frame copied."""

    class Broken(Partition):
        def transformed(self, number: int, result: FrameResult, now: float) -> None:
            raise KeyError(number)

    tested, exchange, _ = stage()
    tested.submit(Broken(), frame(*first_and_second()))  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        exchange.sent[0]["done"](RowsOfFrame())


def test_a_record_of_a_batch_that_decompresses_to_much() -> None:
    records = [Record(at, at, b"k", b"x" * 1_000_000) for at in range(20)]
    of = frame(Batch(records=records, codec=1).encode())
    result, asked = submitted(of, RowsOfFrame(failed=FailedRow(19, None)))
    assert len(asked) == 1
    assert (result.failed.first, len(result.failed.record.value)) == (19, 1_000_000)


def test_a_single_record_keeps_its_append_time() -> None:
    first, second = first_and_second(attributes=LOG_APPEND_TIME, max_timestamp=77)
    header, record = record_at(frame(first, second), 5, MAX_RECORD)
    batch = single_batch(header, record)
    (found,) = read(sealed(bytearray(batch), read_fields(batch)))
    assert found == Record(5, 77, b"5", b"v", HEADERS)


def limited(trial: QueryTrial, rows: RowsOfFrame) -> tuple[Any, Any]:
    """Return what is sent of a frame with the offsets 0, 1, 2 and 5, and the result for it."""
    tested, exchange, asked = stage()
    exchange.trial = trial
    told = Partition()
    tested.submit(told, frame(*first_and_second()))  # type: ignore[arg-type]
    exchange.sent[0]["done"](rows)
    ((_, result),) = told.results
    assert asked == []
    return exchange.sent[0]["until"], result


def span(first: int, until: int, topic_id: UUID | None = TOPIC_ID, partition: int = 3) -> FrameSpan:
    identity = None if topic_id is None else str(topic_id)
    return FrameSpan(topic="orders", partition=partition, first=first, until=until, topic_id=identity)


WHY = "Java ran out of memory (spark.driver.memory = 1g)"


def fatal(offset: int, **options: Any) -> QueryTrial:
    return QueryTrial(fatal=(FatalRecord(span=span(offset, offset + 1, **options), why=WHY),))


def suspect(first: int, until: int, step: int) -> QueryTrial:
    return QueryTrial(suspects=(SuspectSpan(span=span(first, until), step=step),))


@pytest.mark.parametrize(
    "trial",
    [
        NO_TRIAL,
        fatal(6),
        fatal(1, topic_id=UUID(int=8)),
        fatal(1, partition=2),
        suspect(0, 6, 6),
        suspect(6, 9, 1),
    ],
)
def test_frames_that_pass_as_a_whole(trial: QueryTrial) -> None:
    assert limited(trial, RowsOfFrame()) == (6, FrameResult())


def test_a_suspected_frame_passes_in_parts() -> None:
    assert limited(suspect(0, 6, 2), RowsOfFrame()) == (2, FrameResult(again_from=2))
    assert limited(suspect(4, 6, 1), RowsOfFrame()) == (4, FrameResult(again_from=4))
    rows = RowsOfFrame(undecodable="bad bytes")
    assert limited(suspect(0, 6, 2), rows) == (2, FrameResult(unreadable="bad bytes"))
    assert limited(suspect(0, 6, 2), RowsOfFrame(is_part=True)) == (2, FrameResult(is_part=True))


@pytest.mark.parametrize("topic_id", [TOPIC_ID, None])
def test_a_fatal_record_is_rejected_without_passing_through_the_query(topic_id: UUID | None) -> None:
    until, result = limited(fatal(1, topic_id=topic_id), RowsOfFrame())
    assert until == 1
    failed = result.failed
    assert (failed.first, failed.until, failed.is_certain, failed.record.key) == (1, 2, True, b"1")
    assert failed.message == f"cannot copy orders-3 offset 1 to A.orders-3: query q failed: {WHY}{FATAL}"


def test_a_record_that_fails_before_a_fatal_one_counts() -> None:
    _, result = limited(fatal(1), RowsOfFrame(failed=FailedRow(0, "NULL timestamp")))
    assert result.failed.first == 0


def test_a_partition_continues_in_parts_up_to_the_fatal_record() -> None:
    tested, exchange, _ = stage()
    both = QueryTrial(announced=True, suspects=suspect(0, 2, 1).suspects, fatal=fatal(2).fatal)
    LaneQueryRun(exchange, None).follow(both)  # type: ignore[arg-type]
    replicator, _ = partition(transform=tested)
    replicator.set_producer_id(ProducerId(7, 0))
    trial = QueryTrial(
        suspects=tuple(SuspectSpan(span=of(replicator, one.span), step=one.step) for one in both.suspects),
        fatal=tuple(FatalRecord(span=of(replicator, one.span), why=WHY) for one in both.fatal),
    )
    exchange.trial = trial
    passed = []
    while "offset 2 to" not in (message(replicator) or ""):
        arrive(replicator, *first_and_second())
        sent = exchange.sent.pop()
        passed.append((sent["wanted"], sent["until"]))
        sent["done"](RowsOfFrame())
    assert passed == [(0, 1), (1, 2), (2, 2)]
    assert replicator.position == 2


def of(replicator: PartitionReplicator, one: FrameSpan) -> FrameSpan:
    return dataclasses.replace(one, topic=replicator.source.topic, partition=replicator.source.partition, topic_id=None)


def test_the_question_about_a_failed_record_takes_its_turn() -> None:
    tested, exchange, _ = stage()
    tested.submit(Partition(), frame(*first_and_second()))  # type: ignore[arg-type]
    exchange.sent[0]["done"](RowsOfFrame(failed=FailedRow(5, None)))
    assert exchange.asked == [dataclasses.replace(span(5, 6), is_asked=True)]
