"""Frames go out to the feeder, and rows come back, over a real socket."""

from __future__ import annotations

import asyncio
import dataclasses
import queue
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flows.sql.exchange import QueryFailed, QueryInput, QueryTimes, RowExchange, RowsOfFrame
from flows.sql.frames import lead
from flows.sql.rows import ERROR, FAILED, NO_FRAME
from flows.sql.written import PART_BYTES, FailedRow
from mm2.core.lanes.query_trials import NO_TRIAL, FrameSpan, QueryTrial
from tests.lab.waiting import until
from tests.unit.flows.sql.results import arrow, row

TOKEN = "token"


class Rows:
    """The iterator that Spark gives to the lane runner; `end` it with None or an error."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[pa.RecordBatch | Exception | None] = queue.Queue()
        self.put, self.end = self._waiting.put, self._waiting.put

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (one := self._waiting.get()) is not None:
            if isinstance(one, Exception):
                raise one
            yield one


class Lane:
    """An open exchange, its rows, and the results in order."""

    def __init__(self, path: Path, times: QueryTimes, part_bytes: int = PART_BYTES) -> None:
        self.rows, self.path = Rows(), str(path / "s")
        self.results: list[tuple[int, RowsOfFrame]] = []
        self._added = asyncio.Event()
        self.announced: list[FrameSpan | None] = []
        self.may_pass = asyncio.Event()
        self.may_pass.set()
        self.exchange = RowExchange(
            QueryInput(iter(self.rows), self.path, TOKEN), self._announce, times=times, part_bytes=part_bytes
        )

    async def __aenter__(self) -> Lane:
        await self.exchange.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.rows.end(None)
        await self.exchange.close()

    async def feeder(self, token: str = TOKEN) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(self.path)
        writer.write(token.encode() + b"\n")
        return reader, writer

    def send(self, name: int, data: bytes = b"data", **options: Any) -> None:
        options = {
            "wanted": 5,
            "codec": 0,
            "level": None,
            "is_wanted": lambda: True,
            "takes_more": lambda: True,
            **options,
        }
        self.exchange.send("t", 1, [memoryview(data)], done=partial(self._add, name), **options)

    async def _announce(self, span: FrameSpan | None) -> None:
        self.announced.append(span)
        await self.may_pass.wait()

    def _add(self, name: int, result: RowsOfFrame) -> None:
        self.results.append((name, result))
        self._added.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.results) < count:
                await self._added.wait()
                self._added.clear()


def run(path: Path, test: Any, part_bytes: int = PART_BYTES, **times: float) -> None:
    """``times``: of `QueryTimes`."""

    async def within() -> None:
        async with Lane(path, QueryTimes(**times), part_bytes) as lane:
            await test(lane)

    asyncio.run(within())


def test_results_are_reported_in_order(tmp_path: Path) -> None:
    async def test(lane: Lane) -> None:
        lane.send(10)
        reader, writer = await lane.feeder()
        expected = lead(0, 5, "t", 1, 4) + b"data"
        assert await reader.readexactly(len(expected)) == expected
        for name in (11, 12, 13):
            lane.send(name)
        expected = b"".join(lead(number, 5, "t", 1, 4) + b"data" for number in (1, 2, 3))
        assert await reader.readexactly(len(expected)) == expected
        lane.rows.put(arrow([row(5), row(7)]))
        lane.rows.put(arrow([row(8), row(None), row(None, NO_FRAME), row(None, 1), row(20, 2)]))
        lane.rows.put(padded := arrow([row(None, 2, **{ERROR: "bad bytes"}), *[row(None, NO_FRAME)] * 3]))
        lane.rows.put(arrow([row(None, NO_FRAME)] * 3))
        lane.rows.put(arrow([row(30, 3), row(31, 3, **{FAILED: True}), row(None, 3)]))
        await lane.until(4)
        assert padded.num_rows == 4
        (first, dropped, bad, failed) = (result for _, result in lane.results)
        assert [name for name, _ in lane.results] == [10, 11, 12, 13]
        assert first.batch is not None
        assert first.batch.runs == ((5, 1), (7, 2))
        assert dropped == RowsOfFrame()
        assert bad == RowsOfFrame(undecodable="bad bytes")
        assert failed.failed == FailedRow(31, None)
        assert failed.batch is not None
        writer.close()

    run(tmp_path, test)


def test_frames_soon_after_others_are_written_together(tmp_path: Path) -> None:
    async def test(lane: Lane) -> None:
        reader, writer = await lane.feeder()
        lane.send(10)
        first = lead(0, 5, "t", 1, 4) + b"data"
        assert await reader.read(1_000) == first, "it does not wait for others"
        lane.send(11)
        await asyncio.sleep(0.02)
        lane.send(12)
        both = b"".join(lead(number, 5, "t", 1, 4) + b"data" for number in (1, 2))
        assert await reader.read(1_000) == both
        writer.close()

    run(tmp_path, test, gathered_s=0.2)


@pytest.mark.parametrize("wrong", ["other", "", "größe"])
def test_a_connection_without_the_token_is_closed(tmp_path: Path, wrong: str) -> None:
    async def test(lane: Lane) -> None:
        lane.send(1)
        reader, writer = await lane.feeder(wrong)
        assert await reader.read() == b""
        writer.close()
        reader, writer = await lane.feeder()
        assert await reader.readexactly(1) == b"\x00"
        second, closing = await lane.feeder()
        assert await second.read() == b"", "there is one feeder"
        closing.close()
        writer.close()

    run(tmp_path, test)


@pytest.mark.parametrize("bad", [None, ValueError("no memory"), pa.RecordBatch.from_pylist([{"x": 1}])])
def test_the_end_of_the_query_is_an_error(tmp_path: Path, bad: Any) -> None:
    async def test(lane: Lane) -> None:
        lane.rows.put(bad)
        with pytest.raises(QueryFailed, match="the query has ended" if bad is None else "Error: "):
            async with asyncio.timeout(5):
                await lane.exchange.run()

    run(tmp_path, test)


def test_a_query_that_returns_nothing_is_stuck(tmp_path: Path) -> None:
    async def test(lane: Lane) -> None:
        _, writer = await lane.feeder()
        with suppress(TimeoutError):  # without frames it returns nothing
            async with asyncio.timeout(1.3):
                await lane.exchange.run()
        lane.send(1)
        with pytest.raises(QueryFailed, match="returned nothing"):
            await lane.exchange.run()
        writer.close()

    run(tmp_path, test, stuck_after_s=0.5)


def test_frames_that_are_not_wanted_any_more_are_left_out(tmp_path: Path) -> None:
    async def test(lane: Lane) -> None:
        for name, is_wanted in ((1, True), (2, False), (3, True)):
            lane.send(name, is_wanted=partial(bool, is_wanted))
        reader, writer = await lane.feeder()
        expected = b"".join(lead(number, 5, "t", 1, 4) + b"data" for number in (0, 2))
        assert await reader.readexactly(len(expected)) == expected
        lane.rows.put(arrow([row(None, 0), row(None, 2)]))
        await lane.until(2)
        assert [name for name, _ in lane.results] == [1, 3]
        writer.close()

    run(tmp_path, test)


def test_a_backlog_does_not_delay_the_end(tmp_path: Path) -> None:
    async def test(lane: Lane) -> None:
        for name in range(100):
            lane.send(name, bytes(1_000_000))
        reader, writer = await lane.feeder()
        assert len(await reader.readexactly(1_000_000)) == 1_000_000
        lane.rows.end(None)
        await lane.exchange.close()
        async with asyncio.timeout(2):
            with suppress(ConnectionError):
                while await reader.read(1_000_000):
                    continue
        writer.close()

    run(tmp_path, test)


def test_a_feeder_that_does_not_start(tmp_path: Path) -> None:
    async def test(lane: Lane) -> None:
        with pytest.raises(QueryFailed, match="has not started"):
            await lane.exchange.run()

    run(tmp_path, test, feeder_within_s=0.1)


def test_the_socket_of_an_earlier_attempt_is_replaced_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.touch()

    async def test(lane: Lane) -> None:
        assert path.is_socket()
        assert path.stat().st_mode & 0o077 == 0

    run(tmp_path, test)
    assert not path.exists()


def test_the_end_of_a_closed_exchange_is_ignored(tmp_path: Path) -> None:
    async def test() -> None:
        lane = Lane(tmp_path, QueryTimes(close_within_s=0.05))
        await lane.exchange.open()
        await lane.exchange.close()
        lane.rows.end(None)

    asyncio.run(test())


def test_a_frame_with_many_rows_is_reported_in_parts(tmp_path: Path) -> None:
    """What is written while its partition takes no more would be held in the lane's memory."""

    async def test(lane: Lane) -> None:
        reader, writer = await lane.feeder()
        room = asyncio.Event()
        lane.send(10, takes_more=room.is_set)
        await reader.readexactly(1)
        for at in range(3):
            lane.rows.put(arrow([row(at, value=bytes(1_000))]))
        lane.rows.put(arrow([row(3), row(None, 0), row(None, NO_FRAME)]))
        await lane.until(1)
        watching = asyncio.create_task(lane.exchange.run())
        await asyncio.wait({watching}, timeout=1.2)
        assert not watching.done(), "the query waits for the lane, and is not stuck"
        assert len(lane.results) == 1
        room.set()
        await lane.until(4)
        watching.cancel()
        writer.close()
        batches = [result.batch for _, result in lane.results]
        assert [batch.runs if batch else None for batch in batches] == [((at, 1),) for at in range(4)]
        assert [result.is_part for _, result in lane.results] == [True, True, True, False]

    run(tmp_path, test, 1_000, stuck_after_s=0.05, room_check_s=0.001)


def test_the_rest_of_a_frame_that_is_not_wanted_any_more_is_dropped(tmp_path: Path) -> None:
    async def test(lane: Lane) -> None:
        reader, writer = await lane.feeder()
        wanted = [True]
        lane.send(10, is_wanted=lambda: wanted[0], takes_more=lambda: False)
        await reader.readexactly(1)
        lane.rows.put(arrow([row(0, value=bytes(1_000))]))
        await lane.until(1)
        wanted[0] = False
        for at in range(1, 4):
            lane.rows.put(arrow([row(at, value=bytes(1_000))]))
        lane.rows.put(arrow([row(None, 0), row(None, NO_FRAME)]))
        await lane.until(2)
        writer.close()
        assert lane.results[1][1] == RowsOfFrame()

    run(tmp_path, test, 1_000)


def test_a_record_that_is_too_large_is_the_failed_one(tmp_path: Path) -> None:
    async def test(lane: Lane) -> None:
        reader, writer = await lane.feeder()
        lane.send(10)
        await reader.readexactly(1)
        lane.rows.put(arrow([row(5), row(None, 0, **{ERROR: "6:too large"}), row(None, NO_FRAME)]))
        await lane.until(1)
        writer.close()
        ((_, result),) = lane.results
        assert result.failed == FailedRow(6, "too large", too_large=True)
        assert result.batch is not None
        assert result.batch.runs == ((5, 1),)

    run(tmp_path, test)


def frame_span(until: int, first: int = 5) -> FrameSpan:
    return FrameSpan(topic="t", partition=1, first=first, until=until)


def test_announced_frames_pass_one_after_the_other(tmp_path: Path) -> None:
    async def test(lane: Lane) -> None:
        reader, writer = await lane.feeder()
        lane.exchange.trial = QueryTrial(announced=True)
        lane.may_pass.clear()
        wanted = True
        for name in (10, 11, 12):
            lane.send(name, until=name, is_wanted=lambda name=name: wanted or name != 11)
        running = asyncio.create_task(lane.exchange.run())
        async with asyncio.timeout(5):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await reader.read(1_000)
            assert lane.announced == [frame_span(10)]
            assert not running.done(), "it waits for the node, not for the query"
            lane.may_pass.set()
            first = lead(0, 5, "t", 1, 4, until=10) + b"data"
            assert await reader.readexactly(len(first)) == first
            wanted = False
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await reader.read(1_000)
            lane.rows.put(arrow([row(None, 0)]))
            last = lead(2, 5, "t", 1, 4, until=12) + b"data"
            assert await reader.readexactly(len(last)) == last
            assert lane.announced == [frame_span(10), None, frame_span(12)]
            lane.rows.put(arrow([row(None, 2)]))
            await until(lambda: len(lane.announced) == 4, 5.0, "nothing is in the query any more")
        assert lane.announced[-1] is None
        running.cancel()
        writer.close()

    run(tmp_path, test, stuck_after_s=0.2)


def test_a_frame_without_records_is_not_announced(tmp_path: Path) -> None:
    async def test(lane: Lane) -> None:
        reader, writer = await lane.feeder()
        lane.exchange.trial = QueryTrial(announced=True)
        lane.send(10, until=5)
        frame = lead(0, 5, "t", 1, 4, until=5) + b"data"
        assert await reader.readexactly(len(frame)) == frame
        lane.rows.put(arrow([row(None, 0)]))
        await lane.until(1)
        assert lane.announced == []
        writer.close()

    run(tmp_path, test)


def test_frames_pass_together_again(tmp_path: Path) -> None:
    async def test(lane: Lane) -> None:
        reader, writer = await lane.feeder()
        lane.exchange.trial = QueryTrial(announced=True)
        lane.send(10)
        frame = lead(0, 5, "t", 1, 4) + b"data"
        assert await reader.readexactly(len(frame)) == frame
        for name in (11, 12):
            lane.send(name)
        lane.exchange.trial = NO_TRIAL
        lane.rows.put(arrow([row(None, 0)]))
        both = b"".join(lead(number, 5, "t", 1, 4) + b"data" for number in (1, 2))
        assert await reader.readexactly(len(both)) == both
        assert lane.announced[1:] == [None]
        writer.close()

    run(tmp_path, test)


def question(lane: Lane) -> asyncio.Task[None]:
    """Begin to ask about a record, which is not answered."""

    async def ask() -> None:
        async with lane.exchange.turn(dataclasses.replace(frame_span(6), is_asked=True)):
            await asyncio.get_running_loop().create_future()

    lane.exchange.trial = QueryTrial(announced=True)
    return asyncio.create_task(ask())


def test_a_turn_is_given_back_if_its_task_is_cancelled(tmp_path: Path) -> None:
    """C: the node would keep it for the record, and all others would wait."""

    async def test(lane: Lane) -> None:
        reader, writer = await lane.feeder()
        asking = question(lane)
        await until(lambda: len(lane.announced) == 1, 5.0, "the question has its turn")
        lane.send(10, until=7)
        asking.cancel()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.read(1_000)
        assert len(lane.announced) == 1, "Spark can still be evaluating the record"
        async with asyncio.timeout(5):
            assert await reader.readexactly(1) == b"\x00"
        assert lane.announced[1:] == [None, frame_span(7)]
        writer.close()

    run(tmp_path, test, late_s=1.0)


def test_a_turn_is_given_back_if_its_task_is_cancelled_before_it_begins(tmp_path: Path) -> None:
    async def test(lane: Lane) -> None:
        lane.may_pass.clear()
        asking = question(lane)
        await until(lambda: len(lane.announced) == 1, 5.0, "it is announced")
        later = question(lane)
        asking.cancel()
        later.cancel()
        await asyncio.wait({asking, later})
        assert len(lane.announced) == 1, "the node has not answered"
        lane.may_pass.set()
        await until(lambda: len(lane.announced) == 2, 5.0, "the turn is given back")
        lane.send(10, until=7)
        _, writer = await lane.feeder()
        await until(lambda: len(lane.announced) == 3, 5.0, "the next one has its turn")
        assert lane.announced[1:] == [None, frame_span(7)]
        writer.close()

    run(tmp_path, test)


def test_a_closed_exchange_asks_for_no_turn(tmp_path: Path) -> None:
    async def test(lane: Lane) -> None:
        lane.may_pass.clear()
        lane.exchange.trial = QueryTrial(announced=True)
        _, writer = await lane.feeder()
        lane.send(10, until=7)
        await until(lambda: len(lane.announced) == 1, 5.0, "it is announced")
        asking = question(lane)
        lane.rows.end(None)
        await lane.exchange.close()
        asking.cancel()
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()}, 5.0, "no task is left")
        assert len(lane.announced) == 1
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    run(tmp_path, test)


def test_frames_that_wait_for_the_turn_of_a_question_are_not_stuck(tmp_path: Path) -> None:
    async def test(lane: Lane) -> None:
        asking = question(lane)
        await until(lambda: len(lane.announced) == 1, 5.0, "the question has its turn")
        _, writer = await lane.feeder()
        lane.send(10, until=7)
        running = asyncio.create_task(lane.exchange.run())
        await asyncio.wait({running}, timeout=1.3)
        assert not running.done(), "nothing is in the query"
        running.cancel()
        asking.cancel()
        writer.close()

    run(tmp_path, test, stuck_after_s=0.2)


def test_a_question_about_a_record_takes_its_turn(tmp_path: Path) -> None:
    async def test(lane: Lane) -> None:
        reader, writer = await lane.feeder()
        asked = dataclasses.replace(frame_span(6), is_asked=True)
        async with lane.exchange.turn(asked):
            assert lane.announced == [], "all is well"
        lane.exchange.trial = QueryTrial(announced=True)
        frame = lead(0, 5, "t", 1, 4, until=7) + b"data"
        async with lane.exchange.turn(asked):
            lane.send(10, until=7)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await reader.read(1_000)
            assert lane.announced == [asked]
        assert await reader.readexactly(len(frame)) == frame
        assert lane.announced == [asked, None, frame_span(7)]
        writer.close()

    run(tmp_path, test)
